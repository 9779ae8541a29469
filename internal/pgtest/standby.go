package pgtest

import (
	"fmt"
	"testing"
	"time"
)

// Standby starts a second server that follows this one, and makes this one wait with each
// COMMIT until the other has it.
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	standby, err := c.Cluster.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Remove(); err != nil {
			t.Error(err)
		}
	})
	c.execute(t, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	primary := &Database{Cluster: c, Name: "postgres"}
	for deadline := time.Now().Add(30 * time.Second); primary.Text(t, "SELECT count(*)::text FROM pg_stat_replication WHERE sync_state = 'sync'") != "1"; {
		if time.Now().After(deadline) {
			t.Fatalf("the standby does not follow:\n%s", standby.Log())
		}
	}
	return &Cluster{standby}
}

// Promote makes a standby the primary, which waits for no standby of its own.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.execute(t, "SELECT pg_promote(true, 60)")
	c.WaitForNobody(t)
}

// WaitForNobody has a server commit without a standby.
func (c *Cluster) WaitForNobody(t testing.TB) {
	t.Helper()
	c.execute(t, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
}

// On is the same database on another server.
func (d *Database) On(other *Cluster) *Database { return &Database{Cluster: other, Name: d.Name} }

// EitherDSN addresses a database on whichever of two servers takes writes.
func (d *Database) EitherDSN(role string, other *Cluster) string {
	return fmt.Sprintf("host=%s,%s port=%d,%d dbname=%s user=%s target_session_attrs=read-write",
		d.Socket(), other.Socket(), d.Port(), other.Port(), d.Name, role)
}
