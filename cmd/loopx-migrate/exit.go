package main

import (
	"errors"
	"syscall"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// kinds is the one table of how a command can end; the value of a kind is the exit
// status. For each it says in a word what the status in an answer is, and what was
// not changed.
var kinds = map[cutover.Kind]struct{ status, unchanged string }{
	cutover.KindDone:        {statusDone, ""},
	cutover.KindOther:       {"failed", "unknown; see status"},
	cutover.KindUsage:       {"usage", "nothing was changed"},
	cutover.KindRefused:     {"refused", "nothing was changed"},
	cutover.KindDiffers:     {"differs", "the source stays the authority; neither store was changed"},
	cutover.KindConflict:    {"conflict", "nothing was changed"},
	cutover.KindUnproved:    {"unproved", "the record names the step; no second store takes writes"},
	cutover.KindUnreachable: {"unreachable", "nothing was changed"},
	cutover.KindInterrupted: {"interrupted", "what was done so far stands and is on record"},
}

// Statuses of answers that are no refusals, beside those of cutover.Result.
const (
	statusDone    = "done"
	statusPreview = "preview"
)

// asRefusal sorts any error of a command. Those this package and its readers make
// are sorted here, all others by cutover.
func asRefusal(err error) *cutover.Refusal {
	var registry *fence.RegistryError
	var goal *authority.GoalIDError
	if refusal := evidenceRefusal(err); refusal != nil {
		return refusal
	}
	switch {
	case errors.As(err, &registry):
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: registry.Reason, Sentence: registry.Detail + "; nothing was changed"}
	case errors.As(err, &goal):
		return &cutover.Refusal{Kind: cutover.KindUsage, Reason: "goal_id_not_one_segment", Sentence: goal.Error()}
	}
	return cutover.AsRefusal(err)
}

// refused turns an error into an answer, keeping what the command had to say.
func (e *env) refused(a *answer, args []string, err error) *answer {
	if a == nil {
		a = &answer{Command: commandOf(e, args)}
	}
	a.refusal = asRefusal(err)
	a.Status = kinds[a.refusal.Kind].status
	if a.next == nil {
		a.next = a.refusal.Next
	}
	if len(a.next) == 0 {
		a.next, a.alone = e.wayOn(a)
	}
	a.cause = err
	a.fact("where", whereOf(err))
	if len(a.refusal.Holds) > 0 && a.Facts["holds"] == nil {
		a.fact("holds", a.refusal.Holds)
	}
	return a
}

// commandOf names the command of a line that could not be run.
func commandOf(e *env, args []string) string {
	for _, arg := range args {
		if command := e.app().Command(arg); command != nil {
			return command.Name
		}
	}
	return ""
}

// whereOf collects what an error says about the place of the trouble. None of it
// holds a path or a record's text.
func whereOf(err error) map[string]any {
	where := map[string]any{}
	var store *authority.Error
	if errors.As(err, &store) {
		where["store"], where["class"], where["verb"] = store.Kind, store.Class, store.Verb
		where["detail"], where["field"], where["operation_id"] = store.Detail, store.Field, store.OperationID
		if store.Cursor != 0 {
			where["cursor"] = store.Cursor.String()
		}
		if len(store.Findings) > 0 {
			where["findings"] = store.Findings
		}
	}
	var diverged *bootstrap.DivergedError
	if errors.As(err, &diverged) {
		where["store"], where["cursor"], where["detail"] = "candidate", diverged.Cursor.String(), diverged.Detail
	}
	var tampered *manifest.TamperedError
	if errors.As(err, &tampered) {
		where["file"], where["detail"] = tampered.File, tampered.Detail
	}
	var busy *lockfile.BusyError
	if errors.As(err, &busy) {
		where["lock_family"], where["holder_pid"], where["waited"] = busy.Family, busy.PID, busy.Waited.String()
	}
	for key, value := range where {
		if value == "" {
			delete(where, key)
		}
	}
	return where
}

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
