package main

import (
	"fmt"
	"slices"

	"github.com/loopx-project/loopx-migrate/internal/pgserver"
)

// served is a Goal and a private PostgreSQL server.
type served struct {
	goalCopy
	url   string
	flags []string
}

// withServer runs a probe with a server of its own, where there are programs for one.
func withServer(probe func(served) standing) func(*climber) standing {
	return func(l *climber) (s standing) {
		programs := pgserver.Programs()
		if programs == "" {
			return standing{rungUnverified, "no PostgreSQL server programs are installed here"}
		}
		cluster, err := pgserver.New(programs)
		must(err == nil, "the server cannot be started")
		defer func() {
			if err := cluster.Remove(); err != nil && s.state == rungPass {
				s = standing{rungFail, "the server cannot be removed"}
			}
		}()
		url := cluster.URL("postgres", pgserver.Admin)
		return probe(served{l.goal(), url, []string{"--postgres=" + url, "--tenant=" + demoTenant}})
	}
}

// with are the words of a command and the flags that name the server.
func (s served) with(words ...string) []string { return slices.Concat(words, s.flags) }

// accepting steps with every hold accepted that may be, by its name.
func (s served) accepting(words ...string) {
	s.step(slices.Concat(s.with(words...), s.accepted(s.with(words...)...))...)
}

// install prepares the database, and demands that pg doctor sees the difference. The
// private server's only role is its superuser, which pg doctor does not accept either.
func (s served) install() {
	must(s.schema() == "false", "pg doctor takes an empty database for LoopX's")
	s.step(s.with("pg", "install")...)
	must(s.schema() == "true", "pg doctor does not see what was installed")
}

// schema is whether LoopX's tables are there, as pg doctor says.
func (s served) schema() string {
	checks, _ := s.run(s.with("pg", "doctor")...).Facts["checks"].([]any)
	for _, c := range checks {
		if check, _ := c.(map[string]any); check["name"] == "schema" {
			return fmt.Sprint(check["ok"])
		}
	}
	return ""
}

func probeInstall(s served) standing {
	s.install()
	s.step(s.with("pg", "install")...)
	must(s.schema() == "true", "pg doctor does not see what was installed twice")
	return pass("pg doctor misses LoopX's tables before it and not after; it may run again")
}

// probeServerWays moves a Goal from SQLite to PostgreSQL, on to a journal, and back.
func probeServerWays(s served) standing {
	s.install()
	s.through("freeze --to sqlite:", "import", "compare", "promote")
	s.answers(0, "done", "probe-writer")
	held := s.digest()
	s.accepting("freeze", "--to", s.url)
	s.step(s.with("import")...)
	s.step(s.with("compare")...)
	s.accepting("promote")
	s.stands("postgresql", held)
	s.step(s.with("freeze", "--to", "file:")...)
	for _, step := range []string{"import", "compare", "promote"} {
		s.step(s.with(step)...)
	}
	s.answers(0, "done", "probe-writer")
	s.stands("file", "")
	held = s.digest()
	s.step(s.with("rollback")...)
	s.stands("postgresql", held)
	return pass("SQLite, PostgreSQL, a journal, and PostgreSQL again")
}

// stands demands who the authority is and, where one is given, the digest of its history.
func (s served) stands(kind, digest string) {
	r := s.answers(0, "done", s.with("inspect")...)
	must(r.fact("authority", "kind") == kind, "the authority is %s", r.fact("authority", "kind"))
	if digest != "" {
		found := s.answers(0, "done", s.with("verify", s.url)...).fact("store", "logical_digest")
		must(found == digest, "the history on the server is another")
	}
}
