package main

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/cutover"
)

// waysOn are the lines to run next after refusals that name none themselves, by reason.
// The empty line is the help of the command: it was given something it cannot work with.
var waysOn = map[string][]string{
	"permission_denied": {"grants"}, "owner_grant": {"grants"}, "already_granted": {"grants"}, "no_such_grant": {"grants"}, "principal_unknown": {"grants"},
	"rehearsal_missing": {"rehearse"}, "rehearsal_outdated": {"rehearse"}, "rehearsal_invalid": {"rehearse"},
	"head_schema_migration_required": {"inspect"}, "store_lineage_mismatch": {"inspect"}, "store_binding": {"rebind"},
	"folder_missing": {}, "folder_not_empty": {}, "report_in_runtime_root": {}, "place_taken": {}, "target_not_standalone": {}, "target_not_promotable": {},
	"server_programs_missing": {}, "goal_not_disposable": {}, "already_authority": {},
}

// waysNowhere are refusals without a line to run next: goal_not_found, since only the
// operator knows which id or state file he meant, and record_tampered, since every command
// reads the record and none can tell what it said.
var waysNowhere = []string{"goal_not_found", "record_tampered"}

// wayOn is the line to run next after a refusal that names none. It may stand alone, without
// the global flags, one of which may be what is wrong.
func (e *env) wayOn(a *answer) (next []string, alone bool) {
	r := a.refusal
	help := append(strings.Fields(a.Command), "--help")
	line, known := waysOn[r.Reason]
	switch {
	case slices.Contains(waysNowhere, r.Reason):
		return nil, false
	case r.Kind == cutover.KindUsage || known && len(line) == 0:
		return help, true
	case known && e.names():
		return line, false
	case r.Kind == cutover.KindConflict:
		return previewed(e.words), false
	case r.Kind == cutover.KindUnreachable || r.Kind == cutover.KindInterrupted || !e.names():
		return e.words, false
	}
	return e.look(a.Command, len(r.Holds) > 0), false
}

// look is the command that shows what stands in the way: the holds, or else the state.
func (e *env) look(command string, holds bool) []string {
	switch {
	case holds || command == "status" || strings.HasPrefix(command, "verify"):
		return []string{"inspect"}
	case command == "inspect" || strings.HasPrefix(command, "evidence") || command == "compare" && slices.ContainsFunc(e.words, func(word string) bool { return strings.HasPrefix(word, "--left") }):
		return e.words // it names what it found; the same line looks again
	}
	return []string{"status"}
}

// names reports whether the command line and the environment name a Goal with its place.
func (e *env) names() bool {
	return e.globals.goalID != "" && (e.globals.runtimeRoot != "" || e.globals.registry != "")
}

// previewed is a line without what executes it: it makes a new preview.
func previewed(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		return word == "--execute" || slices.ContainsFunc([]string{"--operation-id=", "--plan-digest=", "--through="},
			func(flag string) bool { return strings.HasPrefix(word, flag) })
	})
}
