package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// probeFrozen demands that a frozen Goal is named by its migration and takes no write.
func probeFrozen(l *climber) standing {
	g := l.goal()
	frozen := g.step("freeze", "--to", "sqlite:")
	r := g.answers(6, "", "inspect")
	must(r.fact("authority", "blocked") == "true" && g.accepts() == "", "somebody may write")
	must(frozen.fact("migration_id") != "" && r.fact("authority", "migration_id") == frozen.fact("migration_id"), "inspect names migration %q", r.fact("authority", "migration_id"))
	return pass("nobody, by the migration that is named")
}

// otherIdentity lets the selector name another store than the database that stands there.
func otherIdentity(g goalCopy) {
	g.through("freeze --to sqlite:", "import", "compare", "promote")
	identity := g.run("inspect").fact("authority", "store_identity")
	g.overwrite(g.selector(), func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte(identity), []byte("sqlite:"+strings.Repeat("0", 32)))
	})
}

// probeStray lets a store stand at LoopX's place while the legacy files are the authority.
func probeStray(l *climber) standing {
	g := l.goal()
	g.remove(g.fence())
	before := g.tree()
	r := g.run("inspect")
	must(strings.Contains(r.fact("authority"), "journal_not_authority"), "inspect does not name it: %s", r.ReasonCode)
	g.answers(3, "journal_not_authority", "freeze", "--to", "sqlite:", "--writers-stopped", g.registry())
	must(g.tree() == before, "the goal was changed")
	return pass("journal_not_authority: a finding, and a freeze is held")
}

// probeLivePlan executes a preview after another commit, and one whose history was replaced.
func probeLivePlan(l *climber) standing {
	g := l.goal()
	line := g.answers(0, "preview", "freeze", "--to", "sqlite:").printed()
	rewritten := g.copy()
	g.answers(0, "done", "probe-writer")
	done := l.line(line)
	must(done.Exit == 0 && done.fact("result", "cursor") == "232", "after a commit it answered %d %s", done.Exit, done.ReasonCode)

	journal := rewritten.journal()
	first, err := os.ReadFile(journal)
	must(err == nil, "the journal cannot be read")
	rewritten.answers(0, "done", "probe-writer")
	line = rewritten.answers(0, "preview", "freeze", "--to", "sqlite:").printed()
	rewritten.overwrite(journal, func([]byte) []byte { return first })
	rewritten.answers(0, "done", "probe-writer") // another transaction at the same cursor
	r := l.line(line)
	must(r.Exit == 5 && r.ReasonCode == "plan_changed", "with another history it answered %d %s", r.Exit, r.ReasonCode)
	return pass("a commit leaves it valid, a rewritten history does not (plan_changed)")
}

// probeRewritten replaces the last row that was copied while the source was live.
func probeRewritten(l *climber) standing {
	g := l.goal()
	first, err := os.ReadFile(g.journal())
	must(err == nil, "the journal cannot be read")
	g.answers(0, "done", "probe-writer")
	g.step("import", "--to", "sqlite:")
	g.overwrite(g.journal(), func([]byte) []byte { return first })
	g.answers(0, "done", "probe-writer")
	preview := g.run("freeze", "--to", "sqlite:")
	if preview.Exit == 0 {
		g.through("freeze --to sqlite:")
		preview = g.run("import")
		if preview.Exit == 0 {
			preview = l.line(preview.printed())
		}
	}
	must(preview.Exit != 0, "the copy of another history was taken")
	return pass("exit %d, %s", preview.Exit, preview.ReasonCode)
}

// probeQuarantine gives up a migration and looks for its candidate.
func probeQuarantine(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:", "import")
	g.step("abort")
	kept, err := filepath.Glob(filepath.Join(filepath.Dir(g.manifest()), "quarantine", "*", "*.sqlite"))
	must(err == nil && len(kept) == 1, "%d candidates are in quarantine", len(kept))
	r := l.run("--goal-id="+demoGoal, "verify", "sqlite:"+kept[0])
	must(r.Exit == 0 && r.fact("store", "transactions") == "231", "it answered %d %s", r.Exit, r.ReasonCode)
	return pass("it is in quarantine, and whole")
}

func probeBudget(l *climber) standing {
	g := l.goal()
	before := g.loopxTree()
	r := l.line(g.answers(0, "preview", "cutover", "--to", "sqlite:", "--max-stall", "1ms").printed())
	must(r.Exit == 3 && r.ReasonCode == "stall_too_long", "it answered %d %s", r.Exit, r.ReasonCode)
	must(g.loopxTree() == before, "it changed the goal")
	return pass("exit 3, stall_too_long, nothing fenced")
}

// held demands that a freeze is held by a hold for a changed state, and changes nothing.
func held(hold string, change func(head map[string]any)) func(*climber) standing {
	return func(l *climber) standing {
		g := l.goal()
		g.state(change)
		return g.heldBy(hold)
	}
}

func (g goalCopy) heldBy(hold string) standing {
	before := g.tree()
	r := g.run("freeze", "--to", "sqlite:")
	must(r.Exit == 3 && r.ReasonCode == hold, "freeze answered %d %s", r.Exit, r.ReasonCode)
	must(strings.Contains(g.run("inspect").fact("holds"), hold), "inspect does not name it")
	must(g.tree() == before, "it changed the goal")
	return pass("exit 3, %s", hold)
}

func activeLease(head map[string]any) { leaseOf(head, "2099-01-01T00:00:00Z") }

func leaseOf(head map[string]any, expires string) {
	leases, _ := head["leases"].([]any)
	must(len(leases) > 0, "the goal has no lease")
	lease, _ := leases[0].(map[string]any)
	lease["status"], lease["expires_at"] = "active", expires
	delete(lease, "released_at")
}

func softClaim(head map[string]any) { head["handoff_mode"] = "soft_claim" }

func namelessTodo(head map[string]any) {
	head["leases"] = []any{} // each names a todo, which would be missed first
	todos, _ := head["todos"].([]any)
	must(len(todos) > 0, "the goal has no todo")
	todo, _ := todos[0].(map[string]any)
	delete(todo, "todo_id")
}

// probeUnfinished leaves a migration of LoopX's own half done.
func probeUnfinished(l *climber) standing {
	g := l.goal()
	g.overwrite(g.path("authority-transition", "local-provider", "ladder", "recovery.json"), func([]byte) []byte {
		return []byte(`{"phase":"prepared","goal_id":"` + demoGoal + `"}`)
	})
	return g.heldBy("loopx_migration_unfinished")
}

// probeAccepted accepts a hold by its name, and tries to accept everything.
func probeAccepted(l *climber) standing {
	g := l.goal()
	g.state(func(head map[string]any) { leaseOf(head, "2026-09-01T09:00:00Z") })
	g.answers(3, "lease_expired_still_active", "freeze", "--to", "sqlite:")
	owned := []string{"--owner", "ladder", "--reason", "the goal is disposable"}
	for _, all := range []string{"*", "all", "lease_expired_still_active:*", "lease_expired_still_active"} {
		r := g.run(append([]string{"freeze", "--to", "sqlite:", "--accept", all}, owned...)...)
		must(r.Exit == 2 || r.Exit == 3, "--accept %s answered %d %s", all, r.Exit, r.ReasonCode)
	}
	g.step(append([]string{"freeze", "--to", "sqlite:"}, g.accepted("freeze", "--to", "sqlite:")...)...)
	record, err := os.ReadFile(g.manifest())
	must(err == nil && bytes.Contains(record, []byte(`"reason":"the goal is disposable"`)), "owner and reason are not on record")
	return pass("by its name, on record; four ways to accept everything are refused")
}

// probeJournalAndBack moves a Goal from SQLite to a journal. The first fence is inside the
// database, and a real commit on it must fail.
func probeJournalAndBack(l *climber) standing {
	g := l.promoted()
	g.answers(0, "done", "probe-writer")
	g.step("freeze", "--to", "file:")
	must(g.accepts() == "", "somebody may write")
	g.through("import", "compare", "promote")
	must(g.accepts() == "file", "%q takes writes", g.accepts())
	g.answers(0, "done", "probe-writer")
	held := g.digest()
	g.step("rollback")
	must(g.accepts() == "sqlite" && g.digest() == held, "%q takes writes, or the history is another", g.accepts())
	return pass("and back, with what was committed on both")
}

// probeReadOnly runs every command that only reads.
func probeReadOnly(l *climber) standing {
	g := l.promoted()
	before := g.tree()
	for _, words := range []string{"inspect", "status", "verify sqlite:", "manifest show", "manifest verify", "grants", "rollback", "freeze --to file:"} {
		g.answers(0, "", strings.Fields(words)...)
	}
	must(g.tree() == before, "one of them changed the goal")
	return pass("six commands and two previews: every byte is what it was")
}

// probeNames looks at refusals of every kind: a reason code, one sentence, the line to run next.
func probeNames(l *climber) standing {
	g := l.goal()
	for _, words := range []string{"promote", "freeze", "freeze --to file:", "verify sqlite:", "resume", "rebind", "manifest show", "freeze --to redis:"} {
		r := g.run(strings.Fields(words)...)
		must(r.Exit != 0, "%s was not refused", words)
		must(r.ReasonCode != "" && strings.Trim(r.ReasonCode, "abcdefghijklmnopqrstuvwxyz0123456789_") == "", "%s: the reason code is %q", words, r.ReasonCode)
		must(r.Next != nil, "%s: there is no line to run next", words)
		must(r.Sentence != "" && !strings.Contains(r.Sentence, "\n"), "%s: there is no one sentence", words)
	}
	return pass("eight refusals")
}

// probeLabels tries to put what is private into the record by its labels.
func probeLabels(l *climber) standing {
	g := l.goal()
	before := g.tree()
	for _, label := range []string{"/home/ops/notes", "postgres://ops:secret@db.example/loopx"} {
		g.answers(2, "label_private", "freeze", "--to", "sqlite:", "--actor", label)
	}
	must(g.tree() == before, "it changed the goal")
	return pass("a path and a credential: exit 2, label_private")
}

// probeDemanded promotes with a demand for a rehearsal that there is not.
func probeDemanded(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:", "import", "compare")
	r := g.answers(3, "rehearsal_missing", "promote", "--require-rehearsal")
	must(!strings.Contains(r.fact("holds"), "acceptable:true"), "it may be accepted")
	return pass("exit 3, and nobody may accept it")
}

// probeAlteredArchive changes one byte of an archive.
func probeAlteredArchive(l *climber) standing {
	g := l.goal()
	path := g.path("goal.archive.jsonl")
	g.step("export", "--to", archiveScheme+path)
	g.overwrite(path, func(text []byte) []byte {
		return bytes.Replace(text, []byte("loopx"), []byte("loopy"), 1)
	})
	r := g.run("verify", archiveScheme+path)
	must(r.Exit == 3, "it answered %d %s", r.Exit, r.ReasonCode)
	return pass("exit 3, %s", r.ReasonCode)
}

// probeRecordPrivate looks for paths and texts in the record of a whole migration.
func probeRecordPrivate(l *climber) standing {
	g := l.promoted()
	record, err := os.ReadFile(g.manifest())
	must(err == nil, "the record cannot be read")
	private, err := l.private()
	must(err == nil, "the goal's texts are not known")
	must(private.Scan("manifest.json", record) == nil, "it holds something private")
	form, err := canonical.Append(nil, record)
	must(err == nil && bytes.Equal(bytes.TrimSpace(record), form), "it is not in canonical form")
	return pass("%d bytes: ids, counts, digests", len(record))
}

// probeLoopX lets LoopX itself read a promoted Goal and write to it, and takes the Goal back.
func probeLoopX(l *climber) standing {
	if l.loopx == "" {
		return standing{rungUnverified, "--with-loopx names LoopX's own program"}
	}
	g := l.promoted()
	must(g.loopx("todo", "list") && g.loopx("todo", "add", "--role", "agent", "--text", "[P2] Work of the ladder",
		"--task-class", "advancement_task", "--operation-id", "op-of-loopx"), "LoopX did not read the store, or did not write to it")
	must(g.run("verify", "sqlite:").fact("store", "transactions") == "232", "LoopX's transaction is not there")
	held := g.digest()
	g.step("rollback")
	must(g.digest() == held, "the history is another")
	return pass("LoopX lists and adds a Todo on SQLite, and the journal has it")
}

// loopx runs a command of LoopX on the Goal and reports whether it ended well.
func (g goalCopy) loopx(words ...string) bool {
	line := append([]string{g.registry(), "--runtime-root", g.root(), "--format", "json"}, words...)
	return exec.CommandContext(g.l.ctx, g.l.loopx, append(line, "--goal-id", demoGoal)...).Run() == nil
}
