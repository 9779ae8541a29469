package pgstore

import (
	"context"
	"regexp"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
)

// mayDo are all privileges the runtime role may have, as "table privilege".
var mayDo = map[string]string{
	"authority_store_metadata": "SELECT",
	"authority_heads":          "SELECT INSERT",
	"authority_commits":        "SELECT INSERT",
	"authority_events":         "SELECT INSERT",
	"authority_receipts":       "SELECT INSERT",
	"loopx_migrate_fences":     "SELECT",
	"loopx_migrate_seals":      "SELECT",
}

// role looks at the role LoopX connects as.
func (d *doctor) role(ctx context.Context) error {
	role := d.options.Runtime
	if role == "" {
		d.note("runtime_role", false, "name the role LoopX connects as", "no runtime role was named")
		return nil
	}
	var super, bypass, replication, creates bool
	rows, err := d.texts(ctx, "SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = $1", role)
	if err != nil {
		return err
	}
	d.note("runtime_role", len(rows) == 1, "run pg install with this runtime role", "role %s exists: %t", role, len(rows) == 1)
	if len(rows) != 1 {
		return nil
	}
	err = d.conn.QueryRow(ctx, "SELECT rolsuper, rolbypassrls, rolreplication, rolcreaterole OR rolcreatedb FROM pg_catalog.pg_roles WHERE rolname = $1", role).
		Scan(&super, &bypass, &replication, &creates)
	if err != nil {
		return err
	}
	d.note("runtime_not_superuser", !super && !replication && !creates, "ALTER ROLE ... NOSUPERUSER NOREPLICATION NOCREATEROLE NOCREATEDB",
		"superuser %t, replication %t, makes roles or databases %t", super, replication, creates)
	d.note("runtime_no_bypassrls", !bypass, "ALTER ROLE ... NOBYPASSRLS", "BYPASSRLS %t", bypass)
	if err := d.owned(ctx, role); err != nil {
		return err
	}
	if err := d.memberships(ctx, role); err != nil {
		return err
	}
	return d.privileges(ctx, role)
}

func (d *doctor) owned(ctx context.Context, role string) error {
	owned, err := d.texts(ctx, `SELECT s.classid::regclass::text || ' ' || s.objid FROM pg_catalog.pg_shdepend AS s
		JOIN pg_catalog.pg_roles AS r ON r.oid = s.refobjid AND s.refclassid = 'pg_authid'::regclass
		WHERE r.rolname = $1 AND s.deptype = 'o' AND s.dbid IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))`, role)
	if err == nil {
		d.note("runtime_owns_nothing", len(owned) == 0, "REASSIGN OWNED to the administrator", "it owns %d objects", len(owned))
	}
	return err
}

// memberships looks for roles whose privileges the runtime role could take up.
func (d *doctor) memberships(ctx context.Context, role string) error {
	above, err := d.texts(ctx, `SELECT r.rolname::text FROM pg_catalog.pg_roles AS r
		WHERE r.rolname <> $1 AND pg_has_role($1, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolbypassrls
			OR r.oid = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'loopx_control_plane')
			OR EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
				WHERE n.nspname = 'loopx_control_plane' AND c.relname = 'loopx_migrate_fences' AND has_table_privilege(r.oid, c.oid, 'UPDATE')))`, role)
	if err == nil {
		d.note("runtime_memberships", len(above) == 0, "REVOKE these roles from it", "it may become: %s", strings.Join(above, ", "))
	}
	return err
}

func (d *doctor) privileges(ctx context.Context, role string) error {
	rows, err := d.conn.Query(ctx, `SELECT c.relname::text, p.privilege FROM pg_catalog.pg_class AS c
		JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (privilege)
		WHERE n.nspname = 'loopx_control_plane' AND c.relkind = 'r' AND has_table_privilege($1, c.oid, p.privilege)`, role)
	if err != nil {
		return err
	}
	defer rows.Close()
	var excess []string
	for rows.Next() {
		var table, privilege string
		if err := rows.Scan(&table, &privilege); err != nil {
			return err
		}
		if !strings.Contains(" "+mayDo[table]+" ", " "+privilege+" ") {
			excess = append(excess, privilege+" on "+table)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	d.note("runtime_privileges", len(excess) == 0, "run pg install, which takes them away", "more than it needs: %s", strings.Join(excess, ", "))
	var creates bool
	err = d.conn.QueryRow(ctx, `SELECT coalesce(bool_or(has_schema_privilege($1, oid, 'CREATE')), FALSE) FROM pg_catalog.pg_namespace
		WHERE nspname = 'loopx_control_plane'`, role).Scan(&creates)
	d.note("runtime_no_create", !creates, "REVOKE CREATE ON SCHEMA loopx_control_plane", "it may create objects in the schema: %t", creates)
	return err
}

var functionText = regexp.MustCompile(`(?s)CREATE OR REPLACE FUNCTION loopx_control_plane\.(\w+)\(.*? AS \$\$(.*?)\$\$`)

// objects looks whether triggers and functions of this tool are there as they were made.
func (d *doctor) objects(ctx context.Context) error {
	want := map[string]string{}
	for _, match := range functionText.FindAllStringSubmatch(migrateSQL, -1) {
		want[match[1]] = scriptSum(match[2])
	}
	rows, err := d.conn.Query(ctx, `SELECT p.proname::text, p.prosrc, p.prosecdef AND coalesce(p.proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], FALSE)
			AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
		FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
		WHERE n.nspname = 'loopx_control_plane' AND p.proname LIKE 'loopx\_migrate\_%'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	right, wrong := 0, []string{}
	for rows.Next() {
		var name, text string
		var guarded bool
		if err := rows.Scan(&name, &text, &guarded); err != nil {
			return err
		}
		if guarded && want[name] == scriptSum(text) {
			right++
			continue
		}
		wrong = append(wrong, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	d.note("functions", right == len(want) && len(wrong) == 0, "run pg install", "%d of %d as they were made, others: %v", right, len(want), wrong)
	s := &session{conn: d.conn, installed: true}
	err = s.requireTriggers(ctx)
	if _, reason := authority.DraftReason(err); err == nil || reason == ReasonNotInstalled {
		d.note("triggers", err == nil, "run pg install", "%d triggers on four tables must stand, enabled ALWAYS", ourTriggers)
		err = nil
	}
	return err
}
