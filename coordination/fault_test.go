//go:build faultinject

package coordination_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// TestFaultsAroundTheCommit breaks each durable effect of a claim, in a process of its
// own, in each way. Afterwards there are state and receipt, or neither; what was answered
// is what is there; and the same command again ends well.
func TestFaultsAroundTheCommit(t *testing.T) {
	for _, kind := range []authority.Kind{authority.KindFile, authority.KindSQLite} {
		t.Run(string(kind), func(t *testing.T) {
			n := len(effects(t, newRig(t, kind, projected, 1), ""))
			if n == 0 {
				t.Fatal("a claim has no effects")
			}
			for i := 1; i <= n; i++ {
				for _, fault := range []string{"kill:%d", "kill-after:%d", "torn:%d", "error:%d:EIO", "lost:%d:EIO"} {
					broken(t, newRig(t, kind, projected, 1), fmt.Sprintf(fault, i))
				}
			}
		})
	}
}

// effects runs one claim under a fault and returns what it did.
func effects(t *testing.T, r *rig, fault string) []string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	command := child(t, errand{Place: r.place, Once: true}, "LM_FAULT="+fault, "LM_FAULT_TRACE="+trace, "LM_FAULT_ROOT="+filepath.Dir(r.place.Path))
	answer, err := command.Output()
	if fault == "" && err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	text, err := os.ReadFile(trace)
	must(t, err)
	r.check(fault, strings.TrimSpace(string(answer)))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func broken(t *testing.T, r *rig, fault string) {
	t.Helper()
	effects(t, r, fault)
	r.age()
	result := r.do(claimRequest(r.place.Goal, "op-first", 1, 0, 0))
	if result.Outcome != coordination.Applied && result.Outcome != coordination.AlreadyApplied {
		t.Errorf("%s: the retry says %s, %v, %v", fault, result.Outcome, result.Refusal, result.Err)
	}
	r.check(fault, string(result.Outcome))
}

// age makes a lock that died before it said whose it is as old as one has to be before
// it is taken over.
func (r *rig) age() {
	r.Helper()
	locks, err := filepath.Glob(filepath.Join(r.place.Path, "*.ts-effect.lock"))
	must(r, err)
	for _, lock := range locks {
		must(r, os.Chtimes(lock, time.Time{}, time.Now().Add(-time.Minute)))
	}
}

// check compares what was answered with what is there.
func (r *rig) check(fault, answer string) {
	r.Helper()
	_, err := r.Store.Receipt(r.Context(), "op-first")
	proved, held := err == nil, r.lease(0) != nil
	switch {
	case proved != held:
		r.Errorf("%s: receipt %v, state %v", fault, proved, held)
	case strings.Contains(answer, "applied") && !held:
		r.Errorf("%s: answered %s, and nothing is there", fault, answer)
	case strings.Contains(answer, string(coordination.ReasonStoreRefused)) && held:
		r.Errorf("%s: answered %s, and it is there", fault, answer)
	}
}
