package pgstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the schema is SQL, to be read as such
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/loopx-project/loopx-migrate/authority"
)

//go:embed sql/loopx.sql
var loopxSQL string

//go:embed sql/migrate.sql
var migrateSQL string

// Plan is SQL that an administrator looks at before it runs, in one transaction.
type Plan struct {
	Title string
	SQL   []string // scripts, each of one or more statements
}

// Text is the plan as a script that psql would run to the same effect.
func (p Plan) Text() string {
	return "BEGIN;\n" + strings.Join(p.SQL, "\n") + "\nCOMMIT;\n"
}

// Digest names the plan.
func (p Plan) Digest() authority.Digest { return authority.DigestOf([]byte(p.Text())) }

// InstallOptions says for whom to install. Roles that do not exist are made: they may log
// in, have no password and no privilege but those of the plan.
type InstallOptions struct {
	// Identity is what the database becomes if it has no identity yet.
	Identity authority.Identity
	// Runtime are the roles LoopX connects as: they read, insert and move heads, and
	// can touch neither fences nor seals nor metadata.
	Runtime []string
	// Operators are the roles this tool connects as: they fence, load candidates and set
	// aside as well.
	Operators []string
}

// NewIdentity mints an identity for a database.
func NewIdentity() authority.Identity {
	var digits [16]byte
	_, _ = rand.Read(digits[:]) // documented never to fail
	return authority.Identity("postgresql:" + hex.EncodeToString(digits[:]))
}

// roleShape leaves out names that would need care with quotes in a hand-run script.
var roleShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$-]{0,62}$`)
})

// InstallPlan is the whole of an installation: LoopX's schema, this tool's objects beside
// it, roles and their privileges. Every statement may run again.
func InstallPlan(o InstallOptions) (Plan, error) {
	plan := Plan{Title: "install"}
	if !o.Identity.Valid(authority.KindPostgreSQL) {
		return plan, answerAs("install", "", violation("PostgreSQL store identity must match postgresql:<32 lowercase hex>").Field("store_identity"), unwritten)
	}
	for _, role := range append(o.Runtime[:len(o.Runtime):len(o.Runtime)], o.Operators...) {
		if !roleShape().MatchString(role) {
			return plan, answerAs("install", "", refuse(authority.ClassFailed, ReasonDSN, "a role's name must be letters, digits, _, $ and -").Field("role"), unwritten)
		}
	}
	plan.SQL = []string{loopxSQL, metadataSQL(o.Identity), migrateSQL}
	for _, role := range o.Runtime {
		plan.SQL = append(plan.SQL, roleSQL(role), runtimeGrants(role))
	}
	for _, role := range o.Operators {
		plan.SQL = append(plan.SQL, roleSQL(role), runtimeGrants(role), operatorGrants(role))
	}
	return plan, nil
}

func metadataSQL(id authority.Identity) string {
	return fmt.Sprintf(`INSERT INTO loopx_control_plane.authority_store_metadata (singleton, schema_version, store_identity)
    VALUES (TRUE, '%s', '%s') ON CONFLICT (singleton) DO NOTHING;
`, schemaVersion, id)
}

func roleSQL(role string) string {
	return fmt.Sprintf(`DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = '%s') THEN
        CREATE ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
    END IF;
END $$;
`, role, quoted(role))
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// runtimeGrants are what LoopX's statements need, and reading the own tenant's fence and
// seals. Whatever more the role had on these tables it loses.
func runtimeGrants(role string) string {
	return strings.ReplaceAll(`REVOKE ALL ON ALL TABLES IN SCHEMA loopx_control_plane FROM @role;
REVOKE CREATE ON SCHEMA loopx_control_plane FROM @role;
GRANT USAGE ON SCHEMA loopx_control_plane TO @role;
GRANT SELECT ON loopx_control_plane.authority_store_metadata TO @role;
GRANT SELECT, INSERT, UPDATE (provider_revision, cursor, head, updated_at) ON loopx_control_plane.authority_heads TO @role;
GRANT SELECT, INSERT ON loopx_control_plane.authority_commits, loopx_control_plane.authority_events,
    loopx_control_plane.authority_receipts TO @role;
GRANT SELECT ON loopx_control_plane.loopx_migrate_fences, loopx_control_plane.loopx_migrate_seals TO @role;
`, "@role", quoted(role))
}

func operatorGrants(role string) string {
	return strings.ReplaceAll(`GRANT INSERT, UPDATE ON loopx_control_plane.loopx_migrate_fences TO @role;
GRANT SELECT ON loopx_control_plane.loopx_migrate_quarantine, loopx_control_plane.loopx_migrate_quarantine_heads,
    loopx_control_plane.loopx_migrate_quarantine_commits, loopx_control_plane.loopx_migrate_quarantine_events,
    loopx_control_plane.loopx_migrate_quarantine_receipts, loopx_control_plane.loopx_migrate_quarantine_seals TO @role;
GRANT EXECUTE ON FUNCTION loopx_control_plane.loopx_migrate_set_aside(text, text, text),
    loopx_control_plane.loopx_migrate_bring_back(text, text, text) TO @role;
`, "@role", quoted(role))
}

// Install runs an install plan as the role of server, which becomes the owner of what is
// made. A database of another identity is refused (ReasonIdentityMismatch) and stays as
// it is, as with LoopX's own installer. It returns the identity the database has.
func Install(ctx context.Context, server Server, o InstallOptions) (authority.Identity, error) {
	plan, err := InstallPlan(o)
	if err != nil {
		return "", err
	}
	err = administer(ctx, server, "install", func(ctx context.Context, conn *pgx.Conn) error {
		// One installer at a time: two would fail on each other's catalog rows.
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_xact_lock(5522768808912313930)"); err != nil {
			return err
		}
		for _, script := range plan.SQL {
			if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
				return err
			}
		}
		return metadataIs(ctx, conn, o.Identity)
	})
	return o.Identity, answerAs("install", "", uncertainAdmin(err), unwritten)
}

// metadataIs refuses another identity than the one expected.
func metadataIs(ctx context.Context, conn *pgx.Conn, want authority.Identity) error {
	var schema, identity string
	err := conn.QueryRow(ctx, "SELECT schema_version, store_identity FROM loopx_control_plane.authority_store_metadata WHERE singleton = TRUE FOR UPDATE").
		Scan(&schema, &identity)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return violation(sentenceMetadata).Field("authority_store_metadata")
	case err != nil:
		return err
	case schema != schemaVersion:
		return violation(sentenceMetadata).Field("authority_store_metadata.schema_version")
	case authority.Identity(identity) != want:
		return refuse(authority.ClassFailed, ReasonIdentityMismatch,
			"PostgreSQL store identity does not match the installed database incarnation").Field("authority_store_metadata.store_identity")
	}
	return nil
}

func uncertainAdmin(err error) error {
	var unknown *uncertain
	if !errors.As(err, &unknown) {
		return err
	}
	return refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, "PostgreSQL COMMIT outcome is unknown; run it again").Because(unknown)
}

// administer runs work in one transaction on a connection of its own.
func administer(ctx context.Context, server Server, label string, work func(context.Context, *pgx.Conn) error) error {
	server.fill()
	l, err := newLink(server)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, l.config.ConnConfig)
	if err != nil {
		return &connectError{err}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := work(ctx, conn); err != nil {
		return err // the transaction ends with the connection
	}
	return l.commit(ctx, conn, label)
}

// AdoptPlan seals what stands in a Goal as it stands, also rows that LoopX committed
// before this tool was installed. What they were before, nothing proves; an audit says so.
func AdoptPlan(tenant, goal string) Plan {
	return Plan{Title: "adopt", SQL: []string{fmt.Sprintf("SELECT loopx_control_plane.loopx_migrate_adopt(%s, %s);\n", literal(tenant), literal(goal))}}
}

// literal quotes a text for SQL, whatever standard_conforming_strings is.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// Adopt runs the plan of AdoptPlan, as the owner of the objects.
func Adopt(ctx context.Context, server Server, tenant, goal string) error {
	err := checkNames(tenant, goal, "")
	if err == nil {
		err = administer(ctx, server, "adopt", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT loopx_control_plane.loopx_migrate_adopt($1, $2)", tenant, goal)
			return err
		})
	}
	return answerAs("adopt", goal, uncertainAdmin(err), unwritten)
}

// scriptSum identifies a function's text in the catalog.
func scriptSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
