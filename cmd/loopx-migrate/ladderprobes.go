package main

import (
	"bytes"
	"strings"
)

func untouched(goalCopy) {}

func withoutJournal(g goalCopy) { g.remove(g.journal()) }

func brokenFence(g goalCopy) {
	g.overwrite(g.fence(), func([]byte) []byte { return []byte("{") })
}

func strayDatabase(g goalCopy) {
	g.remove(g.journal())
	g.overwrite(g.database(), func([]byte) []byte { return []byte("no matter what") })
}

func selectsNothing(g goalCopy) {
	g.overwrite(g.selector(), func([]byte) []byte {
		return []byte(`{"schema_version":"loopx_local_authority_provider_v0","provider":"sqlite","goal_id":"` + demoGoal + `","store_identity":"sqlite:` + strings.Repeat("0", 32) + `"}`)
	})
}

// authorityIs demands the row of the table that applies.
func authorityIs(exit int, row string, spoil func(goalCopy)) func(*climber) standing {
	return func(l *climber) standing {
		g := l.goal()
		spoil(g)
		r := g.answers(exit, "", "inspect")
		must(r.fact("authority", "row") == row, "the row is %q", r.fact("authority", "row"))
		return pass("%s", row)
	}
}

// blockedAs demands that inspect names the block, and that a freeze is refused for it and
// changes nothing.
func blockedAs(reason string, spoil func(goalCopy)) func(*climber) standing {
	return func(l *climber) standing {
		g := l.goal()
		spoil(g)
		before := g.tree()
		r := g.run("inspect")
		must(r.Exit == 6, "inspect answered %d %s", r.Exit, r.ReasonCode)
		must(r.fact("authority", "reason") == reason || r.ReasonCode == reason, "inspect says %s, %s", r.fact("authority", "reason"), r.ReasonCode)
		frozen := g.run("freeze", "--to", "sqlite:")
		must(frozen.Exit != 0, "freeze was not refused")
		must(g.tree() == before, "the goal was changed")
		return pass("inspect exits with 6, freeze with %d", frozen.Exit)
	}
}

func probeNoFence(l *climber) standing {
	g := l.goal()
	g.remove(g.fence())
	r := g.run("inspect")
	must(r.fact("authority", "kind") == "legacy", "the authority is %s", r.fact("authority", "kind"))
	g.answers(3, "", "probe-writer")
	return pass("and nobody may write to the journal")
}

func probePreview(l *climber) standing {
	g := l.goal()
	before := g.tree()
	r := g.answers(0, "preview", "freeze", "--to", "sqlite:")
	must(r.Next != nil && strings.HasPrefix(r.fact("plan_digest"), "sha256:"), "there is no digest or no line to run next")
	must(g.tree() == before, "a preview changed the goal")
	return pass("every byte below the runtime root is what it was")
}

func probeWrongDigest(l *climber) standing {
	g := l.goal()
	before := g.loopxTree()
	g.answers(5, "plan_changed", "freeze", "--to", "sqlite:", "--operation-id", "op-ladder", "--through", "231", "--plan-digest", "sha256:"+strings.Repeat("0", 64), "--execute")
	must(g.loopxTree() == before, "it changed the goal")
	return pass("exit 5; the conflict is on record, LoopX's files are untouched")
}

func probeUsage(l *climber) standing {
	g := l.goal()
	for _, args := range [][]string{{"freeze", "--too", "sqlite:"}, {"promote", "everything"}, {"freeze", "--execute"}, {"nothing-like-it"}} {
		g.answers(2, "", args...)
	}
	return pass("four ways, exit 2 each")
}

func probeWrongPhase(l *climber) standing {
	g := l.goal()
	before := g.loopxTree()
	for _, step := range []string{"promote", "rollback"} {
		g.answers(3, "", step)
	}
	must(g.loopxTree() == before, "it changed the goal")
	return pass("promote and rollback before a freeze: exit 3")
}

func probeFreeze(l *climber) standing {
	g := l.goal()
	before := g.run("inspect")
	done := g.step("freeze", "--to", "sqlite:")
	want := before.store()
	must(done.fact("result", "logical_digest") == want["logical_digest"] && done.fact("result", "cursor") == want["cursor"], "it bound something else than inspect had read")
	return pass("at cursor %s", done.fact("result", "cursor"))
}

// probeFrozenWriter lets LoopX try where it was named; a model of it proves nothing of LoopX.
func probeFrozenWriter(l *climber) standing {
	g := l.goal()
	var extra []string
	if l.loopx != "" {
		extra = []string{"--loopx", l.loopx, "--registry", g.dir + "/project/.loopx/registry.json"}
	}
	done := g.step(append([]string{"freeze", "--to", "sqlite:"}, extra...)...)
	g.answers(3, "migration_frozen", "probe-writer")
	by, answer, _ := strings.Cut(done.fact("result", "probe"), ": ")
	if by != "loopx" {
		return standing{rungUnverified, "the writer was a model (" + answer + "); --with-loopx names LoopX's own program"}
	}
	return pass("LoopX answered %s", answer)
}

func probeAbort(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:", "import", "abort")
	r := g.answers(0, "done", "inspect")
	must(r.fact("authority", "kind") == "file", "the authority is %s", r.fact("authority", "kind"))
	g.answers(0, "done", "probe-writer")
	return pass("and a writer may write again")
}

func probeImport(l *climber) standing {
	g := l.goal()
	frozen := g.step("freeze", "--to", "sqlite:")
	done := g.step("import")
	must(done.fact("result", "logical_digest") == frozen.fact("result", "logical_digest"), "the candidate's digest is another")
	return pass("through cursor %s", done.fact("result", "copied_through"))
}

func probePrecopy(l *climber) standing {
	g := l.goal()
	g.step("import", "--to", "sqlite:")
	g.answers(0, "done", "probe-writer") // the source is live
	g.through("freeze --to sqlite:")
	done := g.step("import")
	must(done.fact("result", "copied_through") == "232", "it copied through %s", done.fact("result", "copied_through"))
	return pass("the commit in between arrived")
}

func probeCompare(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:", "import")
	r := g.answers(0, "", "compare")
	must(r.fact("report", "verdict") == "qualified", "the verdict is %s", r.fact("report", "verdict"))
	return pass("qualified")
}

func probeCoverage(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:", "import")
	g.answers(3, "insufficient_evidence", "compare", "--minimum-operations", "100000")
	g.answers(3, "insufficient_evidence", "compare", "--require-event-kind", "no_such_kind")
	return pass("exit 3")
}

// differing is a Goal and a copy of it that lacks its last transaction.
func differing(l *climber) (g goalCopy, left, right string) {
	g = l.goal()
	left, right = "file:", "sqlite:"+g.path("copy.sqlite")
	g.step("import", "--from", left, "--to", right)
	g.answers(0, "done", "probe-writer")
	return g, left, right
}

func probeDiffers(l *climber) standing {
	g, left, right := differing(l)
	r := g.answers(4, "parity_differs", "compare", "--left", left, "--right", right)
	must(strings.Contains(r.fact("report"), "cursor:232") && strings.Contains(r.fact("report"), "operation_id:op-"), "the report names no cursor or operation")
	return pass("cursor 232 and its operation")
}

func probeWitness(l *climber) standing {
	g := l.goal()
	copied := "sqlite:" + g.path("copy.sqlite")
	g.step("import", "--from", "file:", "--to", copied)
	r := g.answers(0, "done", "compare", "--left", "file:", "--right", copied, "--witness")
	facts, _ := r.Facts["witness"].(map[string]any)
	planted, _ := facts["planted_differences"].([]any)
	must(len(planted) == 18, "%d differences were planted", len(planted))
	return pass("nine copies a side, each found")
}

func probePromote(l *climber) standing {
	g := l.promoted()
	r := g.answers(0, "done", "inspect")
	must(r.fact("authority", "kind") == "sqlite", "the authority is %s", r.fact("authority", "kind"))
	wrote := g.answers(0, "done", "probe-writer")
	must(wrote.fact("cursor") == "232", "the write went to cursor %s", wrote.fact("cursor"))
	g.answers(0, "", "verify", "sqlite:")
	return pass("the next write is its cursor 232")
}

// promoted is a Goal on SQLite.
func (l *climber) promoted() goalCopy {
	return l.goal().through("freeze --to sqlite:", "import", "compare", "promote")
}

func probeTripwire(l *climber) standing {
	g := l.promoted()
	g.overwrite(g.journal(), func([]byte) []byte { return []byte("{}") })
	r := g.run("status")
	must(r.Exit == 3, "status answered %d %s", r.Exit, r.ReasonCode)
	return pass("a journal at LoopX's place again: exit 3, %s", r.ReasonCode)
}

func probeCutover(l *climber) standing {
	g := l.goal()
	g.step("import", "--to", "sqlite:")
	done := g.step("cutover", "--to", "sqlite:", "--max-stall", "5m")
	must(g.run("inspect").fact("authority", "kind") == "sqlite", "the authority is another")
	stall := done.fact("result", "outage_ms") + done.fact("result", "stall_ms")
	must(stall != "", "it does not say how long nobody could write")
	return pass("a stall of %s ms", stall)
}

func probeRollback(l *climber) standing {
	g := l.promoted()
	g.answers(0, "done", "probe-writer")
	g.step("rollback")
	r := g.answers(0, "done", "inspect")
	must(r.fact("authority", "kind") == "file", "the authority is %s", r.fact("authority", "kind"))
	must(r.store()["cursor"] == "232", "the journal ends at %v", r.store()["cursor"])
	return pass("cursor 232 is in the journal")
}

func probeAgain(l *climber) standing {
	g := l.promoted().through("rollback", "freeze --to sqlite:", "import", "compare", "promote")
	must(g.run("inspect").fact("authority", "kind") == "sqlite", "the authority is another")
	return pass("there, back, and there")
}

func probeReplay(l *climber) standing {
	g := l.goal()
	line := g.answers(0, "preview", "freeze", "--to", "sqlite:").printed()
	first := l.line(line)
	before := g.tree()
	again := l.line(line)
	must(first.Exit == 0 && again.Exit == 0 && again.Status == "replayed", "it answered %s and %s", first.Status, again.Status)
	must(again.fact("result", "logical_digest") == first.fact("result", "logical_digest") && g.tree() == before, "the outcome or the goal changed")
	return pass("replayed, and not one byte changed")
}

func probeReuse(l *climber) standing {
	g := l.goal()
	done := g.step("freeze", "--to", "sqlite:")
	r := g.run("import", "--operation-id", done.fact("operation_id"), "--plan-digest", "sha256:"+strings.Repeat("0", 64), "--execute")
	must(r.Exit == 5, "it answered %d %s", r.Exit, r.ReasonCode)
	return pass("exit 5, %s", r.ReasonCode)
}

func probeDamaged(l *climber) standing {
	g := l.goal()
	g.overwrite(g.journal(), func(text []byte) []byte {
		at := bytes.Index(text[len(text)/2:], []byte(`"operation_id":"`)) + len(text)/2 + len(`"operation_id":"`)
		changed := bytes.Clone(text)
		changed[at] ^= 1
		return changed
	})
	before := g.tree()
	r := g.answers(3, "", "verify", "file:")
	must(r.fact("where", "cursor") != "", "the cursor is not named")
	must(g.run("freeze", "--to", "sqlite:").Exit != 0, "freeze was not refused")
	must(g.tree() == before, "it changed the goal")
	return pass("cursor %s is named", r.fact("where", "cursor"))
}

func probeRecord(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:")
	g.overwrite(g.manifest(), func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"phase":"frozen"`), []byte(`"phase":"frozem"`), 1)
	})
	before := g.tree()
	r := g.answers(6, "record_tampered", "import")
	must(r.fact("where", "file") == "manifest.json" && g.tree() == before, "it names %q, or something was changed", r.fact("where", "file"))
	return pass("manifest.json is named")
}

func probeManifest(l *climber) standing {
	r := l.promoted().answers(0, "done", "manifest", "verify")
	must(r.fact("steps_proved") == "4", "%s steps were proved", r.fact("steps_proved"))
	return pass("four steps and both sides")
}

func probeArchive(l *climber) standing {
	g := l.goal()
	archive := archiveScheme + g.path("goal.archive.jsonl")
	g.step("export", "--to", archive)
	r := g.answers(0, "", "verify", archive)
	must(strings.Contains(r.fact("archive")+r.fact("store"), "231"), "the archive does not hold 231 transactions")
	return pass("231 transactions")
}

func probeEvidence(l *climber) standing {
	g := l.goal().through("freeze --to sqlite:")
	bundle := g.dir + "/bundle"
	g.answers(0, "done", "report", "--to", bundle)
	must(l.run("evidence", "verify", bundle).Exit == 0, "the bundle is refused as it was written")
	g.overwrite(bundle+"/timings.json", func(text []byte) []byte { return bytes.Replace(text, []byte("freeze"), []byte("freezf"), 1) })
	r := l.run("evidence", "verify", bundle)
	must(r.Exit == 3 && strings.Contains(r.Sentence, "timings.json"), "an altered byte: %d %s", r.Exit, r.Sentence)
	return pass("timings.json was named")
}

func probeRehearsal(l *climber) standing {
	g := l.goal()
	before, result := g.tree(), g.dir+"/rehearsal.json"
	r := g.run("rehearse", "--operations", "12", "--out", result)
	must(r.Exit == 0, "it answered %d %s: %s", r.Exit, r.ReasonCode, r.Sentence)
	must(g.tree() == before, "it changed the goal")
	g.answers(0, "done", "report", "--rehearsal", result, "--to", g.dir+"/rehearsed")
	must(l.run("evidence", "verify", g.dir+"/rehearsed").Exit == 0, "the bundle of its result is refused")
	return pass("and its result is evidence")
}

func probeUnreachable(l *climber) standing {
	g := l.goal()
	r := l.run("--runtime-root="+g.dir+"/nowhere", "--goal-id="+demoGoal, "inspect")
	must(r.Exit == 7, "it answered %d %s", r.Exit, r.ReasonCode)
	return pass("%s", r.ReasonCode)
}

func probePostgreSQL(l *climber) standing {
	r := l.run("demo", "--to", "postgres")
	if r.Exit == 7 || strings.Contains(r.ReasonCode, "server_programs") {
		return standing{rungUnverified, "no PostgreSQL server programs are installed here (" + r.ReasonCode + ")"}
	}
	must(r.Exit == 0, "demo answered %d %s", r.Exit, r.ReasonCode)
	return pass("the whole story on a private server")
}

func probePrivacy(l *climber) standing {
	private, err := l.private()
	must(err == nil, "the goal's texts are not known")
	must(l.printed.Len() > 0, "no other claim was tried, so there is nothing to look at")
	for line := range bytes.Lines(l.printed.Bytes()) {
		if err := private.Scan("answer.json", line); err != nil {
			return standing{rungFail, strings.SplitN(err.Error(), ":", 2)[0]}
		}
	}
	return pass("%d bytes of answers", l.printed.Len())
}

func probeCanary(l *climber) standing {
	r := l.run("canary", "--store", "sqlite")
	must(r.Exit == 0, "it answered %d %s", r.Exit, r.ReasonCode)
	must(r.fact("arms", "sqlite", "verdict") == "proved", "the verdict is %s", r.fact("arms", "sqlite", "verdict"))
	return pass("%s operations of %s agents", r.fact("arms", "sqlite", "operations"), r.fact("arms", "sqlite", "agents"))
}
