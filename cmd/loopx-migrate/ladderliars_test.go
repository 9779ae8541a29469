package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/internal/pgserver"
)

// liar is this program behind a shell that spoils what one claim speaks of.
type liar struct {
	on string // a part of the command line, blanks around its words
	do string // shell; "$real" "$@" is the command, $root the runtime root
}

// after runs the command and then does damage, executed does it only with --execute; alters
// edits its answer; pretends answers in its place.
func after(damage string) string { return `"$real" "$@"; status=$?; ` + damage + `; exit $status` }
func executed(damage string) string {
	return after(`case " $* " in *" --execute "*) ` + damage + `;; esac`)
}
func alters(edit string) string {
	return `answer=$("$real" "$@"); status=$?; echo "$answer" | sed '` + edit + `'; exit $status`
}
func pretends(status, reason, exit string) string {
	return `echo '{"status":"` + status + `","reason_code":"` + reason + `","sentence":"so it is","exit":` + exit + `}'; exit ` + exit
}

var (
	noSelector = `rm -f "$root"/authority/provider-*`
	preview    = pretends("preview", "preview", "0")
	done       = pretends("done", "done", "0")
)

// liars are what makes each claim fail that a run of the whole ladder sees pass.
var liars = map[string]liar{
	"authority.frozen":   {" inspect ", alters("s/mig-/mog-/")},
	"authority.stray":    {" inspect ", alters("s/journal_not_authority/x/")},
	"preview.live":       {" --execute ", pretends("conflict", "plan_changed", "5")},
	"preview.read_only":  {" status ", after(`touch "$root/seen"`)},
	"usage.reasons":      {" promote ", pretends("refused", "Not ready", "3")},
	"usage.labels":       {" --actor ", preview},
	"holds.lease":        {" freeze ", preview},
	"holds.mode":         {" freeze ", preview},
	"holds.nameless":     {" freeze ", after(`touch "$root/seen"`)},
	"holds.unfinished":   {" inspect ", alters("s/loopx_migration_unfinished/x/")},
	"holds.by_name":      {" --accept all ", preview},
	"abort.keeps":        {" abort ", executed(`rm -rf "$root"/authority-transition/loopx-migrate/*/quarantine`)},
	"import.rewritten":   {" import --operation-id ", done},
	"cutover.budget":     {" --execute ", done},
	"promote.rehearsed":  {" --require-rehearsal ", preview},
	"ways.journal":       {" rollback ", executed(noSelector)},
	"record.shareable":   {" promote ", executed(`sed -i 's|{|{"a":"/home/ops",|' "$root"/authority-transition/loopx-migrate/*/manifest.json`)},
	"export.altered":     {" verify ", done},
	"crash.freeze":       {" abort ", executed(`echo "{}" | tee "$root"/authority/file-v0/authority-store-* >/dev/null`)},
	"crash.import":       {" promote ", executed(noSelector)},
	"crash.promote":      {" resume ", executed(noSelector)},
	"crash.rollback":     {" resume ", executed(`rm -f "$root"/authority/file-v0/authority-store-*`)},
	"crash.locked":       {" op-second ", pretends("unreachable", "lock_timeout", "7")},
	"crash.interrupted":  {" import ", `"$real" "$@" & trap "kill -INT $!; wait $!; exit 1" INT; wait $!; exit $?`},
	"grants.required":    {" freeze ", preview},
	"grants.record":      {" grant ", executed(`rm -f "$root"/authority-transition/loopx-migrate/*/grants.json`)},
	"grants.owner":       {" revoke ", preview},
	"heads.upgrade":      {" upgrade-head ", executed(`"$real" --runtime-root="$root" --goal-id=harbour-crane probe-writer >/dev/null`)},
	"heads.rebind":       {" rebind --operation-id ", done},
	"legacy.attested":    {" freeze ", preview},
	"legacy.story":       {" rollback ", executed(`echo more | tee -a "$root"/../project/.codex/goals/*/ACTIVE_GOAL_STATE.md >/dev/null`)},
	"legacy.project":     {" project --operation-id ", done},
	"postgresql.install": {" doctor ", done},
	"postgresql.ways":    {" doctor ", done},
}

// A claim fails when what it speaks of is not so.
func TestAClaimIsNotAlwaysTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("each claim is tried to where it fails")
	}
	real, err := exec.LookPath("loopx-migrate")
	if err != nil {
		t.Fatal(err)
	}
	for id, lie := range liars {
		if strings.HasPrefix(id, "postgresql.") && pgserver.Programs() == "" || id == "grants.required" && os.Geteuid() != 0 {
			continue
		}
		script := filepath.Join(t.TempDir(), "liar")
		text := "#!/bin/sh\nreal=" + real + "\nfor a; do case $a in --runtime-root=*) root=${a#*=};; esac; done\n" +
			"case \" $* \" in *\"" + lie.on + "\"*) " + lie.do + ";; esac\nexec \"$real\" \"$@\"\n"
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		l := newClimber(t.Context(), newEnv("loopx-migrate", nil, nil), "")
		l.e.self = script
		if s := l.stand(rungNamed(t, id)); s.state != rungFail {
			t.Errorf("%s: %+v, and what it claims was not so", id, s)
		} else {
			t.Logf("%s: %s", id, s.why)
		}
		if err := l.clean(); err != nil {
			t.Error(err)
		}
	}
}
