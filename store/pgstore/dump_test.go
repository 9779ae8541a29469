package pgstore

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
)

// loadDump restores the fixture's dump as psql does: statements end with a line's
// semicolon, COPY is followed by its rows up to "\.", and \restrict is psql's own.
func loadDump(t testing.TB, db *pgtest.Database) {
	t.Helper()
	conn := db.Connect(t, pgtest.Admin).PgConn()
	lines := strings.SplitAfter(string(fixture.Read(t, "postgresql-v0-small", "dump.sql")), "\n")
	var statement strings.Builder
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if statement.Len() == 0 && (line == "\n" || strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "--")) {
			continue
		}
		statement.WriteString(line)
		if !strings.HasSuffix(line, ";\n") {
			continue
		}
		text := statement.String()
		statement.Reset()
		if !strings.HasPrefix(strings.TrimSpace(text), "COPY") {
			requireExec(t, conn, text)
			continue
		}
		end := i + 1
		for lines[end] != "\\.\n" {
			end++
		}
		if _, err := conn.CopyFrom(context.Background(), strings.NewReader(strings.Join(lines[i+1:end], "")), text); err != nil {
			t.Fatalf("%.80s: %v", text, err)
		}
		i = end
	}
}

func requireExec(t testing.TB, conn *pgconn.PgConn, text string) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), text).ReadAll(); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
}

const fixtureTenant, fixtureGoal = "tenant-a", "goal-small"

// fixtureBench is the fixture's database with this tool installed beside it and what
// LoopX left there adopted.
func fixtureBench(t testing.TB) *bench {
	t.Helper()
	db := pgtest.New(t)
	loadDump(t, db)
	b := installedOn(t, db)
	if err := Adopt(context.Background(), Server{DSN: b.DSN(pgtest.Admin)}, fixtureTenant, fixtureGoal); err != nil {
		t.Fatal(err)
	}
	return b
}
