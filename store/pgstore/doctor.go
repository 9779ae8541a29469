package pgstore

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Check is one thing the doctor looked at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do when it is not OK
}

// Checkup is everything the doctor looked at, in a fixed order.
type Checkup []Check

// OK reports whether every check is.
func (c Checkup) OK() bool { return !slices.ContainsFunc(c, func(one Check) bool { return !one.OK }) }

// DoctorOptions says what the doctor looks at.
type DoctorOptions struct {
	// Runtime is the role LoopX connects as.
	Runtime string
	// Now is the clock that the server's is compared with; nil is time.Now.
	Now func() time.Time
}

// Doctor looks at a database in a READ ONLY transaction and says what would break
// LoopX's or this tool's promises. Only a server that cannot be asked is an error; what
// is missing or wrong is a Check.
func Doctor(ctx context.Context, server Server, o DoctorOptions) (Checkup, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &doctor{options: o}
	err := d.run(ctx, server)
	return d.found, answerAs("doctor", "", err, unreadable)
}

type doctor struct {
	options DoctorOptions
	conn    *pgx.Conn
	found   Checkup
}

func (d *doctor) run(ctx context.Context, server Server) error {
	server.fill()
	l, err := newLink(server)
	if err != nil {
		return err
	}
	if d.conn, err = pgx.ConnectConfig(ctx, l.config.ConnConfig); err != nil {
		return &connectError{err}
	}
	defer d.conn.Close(context.WithoutCancel(ctx))
	if err := d.pooler(ctx, l); err != nil {
		return err
	}
	if _, err := d.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return err
	}
	for _, look := range []func(context.Context) error{d.server, d.clock, d.schema, d.rowSecurity, d.role, d.objects} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	_, err = d.conn.Exec(ctx, "ROLLBACK") // a pooler would have to clean up behind us
	return err
}

func (d *doctor) note(name string, ok bool, fix, detail string, args ...any) {
	c := Check{Name: name, OK: ok, Detail: fmt.Sprintf(detail, args...)}
	if !ok {
		c.Fix = fix
	}
	d.found = append(d.found, c)
}

// texts returns the first column of a query.
func (d *doctor) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := d.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// pooler compares the process that answers with the one that was introduced, and asks over
// a second connection who answers there: two connections that share a backend are pooled
// by the transaction.
func (d *doctor) pooler(ctx context.Context, l *link) error {
	var first, second uint32
	if err := d.conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&first); err != nil {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, l.config.ConnConfig)
	if err != nil {
		return &connectError{err}
	}
	defer other.Close(context.WithoutCancel(ctx))
	if err := other.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&second); err != nil {
		return err
	}
	switch {
	case first == second:
		d.note("pooler", false, "connect to the server itself, or to a pool in session mode", "a pooler in transaction mode is in between")
	case first != d.conn.PgConn().PID():
		d.note("pooler", false, "connect to the server itself for migrations", "a pooler is in between")
	default:
		d.note("pooler", true, "", "connected to the server itself")
	}
	return nil
}

// oldestServer is the first major version with what the schema uses.
const oldestServer = 14

func (d *doctor) server(ctx context.Context) error {
	settings := map[string]string{}
	rows, err := d.conn.Query(ctx, `SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('server_version', 'server_version_num',
		'server_encoding', 'default_transaction_isolation', 'fsync', 'full_page_writes', 'synchronous_commit', 'search_path')`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		settings[name] = value
	}
	if err := rows.Err(); err != nil {
		return err
	}
	major := 0
	_, _ = fmt.Sscanf(settings["server_version_num"], "%d", &major) // what is no number stays 0 and fails
	d.note("server_version", major/10000 >= oldestServer, "use PostgreSQL 14 or later", "PostgreSQL %s", settings["server_version"])
	d.note("encoding", settings["server_encoding"] == "UTF8", "make the database with ENCODING 'UTF8'", "the database is %s", settings["server_encoding"])
	isolation := settings["default_transaction_isolation"]
	d.note("isolation", isolation != "serializable", "set default_transaction_isolation to read committed for LoopX's role",
		"transactions that name none are %s", isolation)
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		d.note(name, settings[name] != "off" && settings[name] != "local", "set it to on", "%s is %s", name, settings[name])
	}
	d.note("search_path", !strings.Contains(settings["search_path"], "loopx_control_plane"), "take loopx_control_plane out of search_path",
		"search_path is %s; every name is qualified", settings["search_path"])
	var standby bool
	if err := d.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	d.note("primary", !standby, "connect to the primary", "the server is in recovery: %t", standby)
	return nil
}

// clockSlack is how far the clocks may be apart: leases are judged by the second.
const clockSlack = 5 * time.Second

func (d *doctor) clock(ctx context.Context) error {
	var there time.Time
	before := d.options.Now()
	if err := d.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return err
	}
	after := d.options.Now()
	apart := there.Sub(before.Add(after.Sub(before) / 2)).Abs()
	d.note("clock", apart <= clockSlack+after.Sub(before), "set both clocks by NTP", "the clocks are %s apart", apart.Round(time.Millisecond))
	return nil
}

var tenantTables = []string{"authority_commits", "authority_events", "authority_heads", "authority_receipts"}

func (d *doctor) schema(ctx context.Context) error {
	found, err := d.texts(ctx, `SELECT c.relname::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = 'loopx_control_plane' AND c.relkind = 'r' AND c.relname = ANY ($1) ORDER BY 1`, append(tenantTables, "authority_store_metadata"))
	if err != nil {
		return err
	}
	d.note("schema", len(found) == len(tenantTables)+1, "run pg install", "%d of %d tables of LoopX are there", len(found), len(tenantTables)+1)
	if len(found) <= len(tenantTables) {
		return nil
	}
	// A role without the privilege is told so by the check of roles, not by a failure here.
	readable, err := d.texts(ctx, "SELECT 'yes' WHERE has_table_privilege('loopx_control_plane.authority_store_metadata', 'SELECT')")
	if err != nil || len(readable) == 0 {
		d.note("metadata", false, "grant SELECT on authority_store_metadata", "the metadata cannot be read")
		return err
	}
	identities, err := d.texts(ctx, "SELECT store_identity FROM loopx_control_plane.authority_store_metadata WHERE singleton AND schema_version = $1", schemaVersion)
	ok := len(identities) == 1 && authority.Identity(identities[0]).Valid(authority.KindPostgreSQL)
	d.note("metadata", ok, "run pg install", "identity %s", strings.Join(identities, ", "))
	return err
}

var policyText = regexp.MustCompile(`^\(tenant_id = current_setting\('loopx\.tenant_id'::text, true\)\)$`)

func (d *doctor) rowSecurity(ctx context.Context) error {
	forced, err := d.texts(ctx, `SELECT c.relname::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = 'loopx_control_plane' AND c.relrowsecurity AND c.relforcerowsecurity AND c.relname = ANY ($1) ORDER BY 1`, tenantTables)
	if err != nil {
		return err
	}
	d.note("row_security_forced", len(forced) == len(tenantTables), "run pg install", "forced on %s", strings.Join(forced, ", "))
	rows, err := d.conn.Query(ctx, `SELECT tablename::text, policyname::text, permissive || ' ' || cmd || ' ' || array_to_string(roles, ','), qual, coalesce(with_check, '')
		FROM pg_catalog.pg_policies WHERE schemaname = 'loopx_control_plane' AND tablename = ANY ($1)`, tenantTables)
	if err != nil {
		return err
	}
	defer rows.Close()
	right, wrong := 0, []string{}
	for rows.Next() {
		var table, policy, kind, using, check string
		if err := rows.Scan(&table, &policy, &kind, &using, &check); err != nil {
			return err
		}
		if policy == table+"_tenant_scope" && kind == "PERMISSIVE ALL public" && policyText.MatchString(using) && policyText.MatchString(check) {
			right++
			continue
		}
		wrong = append(wrong, policy)
	}
	d.note("row_security_policies", right == len(tenantTables) && len(wrong) == 0, "run pg install and drop other policies",
		"%d tenant policies as they should be, others: %v", right, wrong)
	return rows.Err()
}
