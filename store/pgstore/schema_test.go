package pgstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// schemaOf prints the schema: what the catalog says and, where the server came with it,
// what pg_dump prints. The packages of npm hold no pg_dump.
func schemaOf(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	if _, err := os.Stat(db.Program("pg_dump")); errors.Is(err, fs.ErrNotExist) {
		return catalogOf(t, db)
	}
	return catalogOf(t, db) + dumpOf(t, db)
}

// dumpOf is pg_dump's print of the schema, without comments and its own commands.
func dumpOf(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	out, err := exec.Command(db.Program("pg_dump"), "--schema-only", "--no-owner", "--no-privileges",
		"--host", db.Socket(), "--port", fmt.Sprint(db.Port()), "--username", pgtest.Admin, db.Name).Output()
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, line := range strings.Split(string(out), "\n") {
		if line != "" && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, `\`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// catalogOf is everything in LoopX's schema as the server itself describes it, one line
// a thing, without owners and privileges.
func catalogOf(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	text := db.Text(t, `WITH here AS (SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relreplident
			FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'loopx_control_plane'),
		things (line) AS (
			SELECT format('relation %s %s %s rls %s forced %s replica %s', relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relreplident) FROM here
			UNION ALL SELECT format('column %s %s %s %s not null %s default %s identity %s generated %s collation %s', h.relname, a.attnum, a.attname,
				format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation)
				FROM here AS h JOIN pg_attribute AS a ON a.attrelid = h.oid AND a.attnum > 0 AND NOT a.attisdropped
				LEFT JOIN pg_attrdef AS d ON d.adrelid = h.oid AND d.adnum = a.attnum
			UNION ALL SELECT format('constraint %s %s %s validated %s', h.relname, k.conname, pg_get_constraintdef(k.oid), k.convalidated) FROM here AS h JOIN pg_constraint AS k ON k.conrelid = h.oid
			UNION ALL SELECT format('index %s', pg_get_indexdef(i.indexrelid)) FROM here AS h JOIN pg_index AS i ON i.indrelid = h.oid
			UNION ALL SELECT format('policy %s %s %s %s %s using %s check %s', h.relname, p.polname, p.polcmd, p.polpermissive, p.polroles::regrole[], pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
				FROM here AS h JOIN pg_policy AS p ON p.polrelid = h.oid
			UNION ALL SELECT format('trigger %s %s %s', h.relname, t.tgenabled, pg_get_triggerdef(t.oid)) FROM here AS h JOIN pg_trigger AS t ON t.tgrelid = h.oid AND NOT t.tgisinternal
			UNION ALL SELECT format('function %s', pg_get_functiondef(p.oid)) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
				WHERE n.nspname = 'loopx_control_plane' AND p.prokind = 'f'
			UNION ALL SELECT format('type %s %s', t.typname, t.typtype) FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
				WHERE n.nspname = 'loopx_control_plane' AND t.typtype <> 'c' AND t.typcategory <> 'A')
		SELECT string_agg(line, chr(10) ORDER BY line COLLATE "C") FROM things`)
	return text + "\n"
}
