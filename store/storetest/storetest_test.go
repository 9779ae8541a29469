package storetest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The planted bugs make rapid fail on purpose; its record of that is of no use.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestRightStorePasses(t *testing.T) { Run(t, naiveHarness("")) }

// TestPlantedBugsAreFound: each bug must make the named check fail. Others may fail too.
func TestPlantedBugsAreFound(t *testing.T) {
	for planted, finder := range map[bug]string{
		"a replay is applied again as it was":          "conflicts",
		"the operation id is looked up first":          "conflicts",
		"a conflict does not say where the head is":    "conflicts",
		"a stale revision is taken":                    "conflicts",
		"the spelling of the caller is kept":           "spelling",
		"any text is an operation id":                  "operation ids",
		"events may be anything":                       "invalid requests",
		"any depth is taken":                           "nesting",
		"limit zero is an empty page":                  "empty store",
		"beyond the head is an empty page":             "empty store",
		"a full page always has more":                  "long history",
		"the last row of a page of 64 is lost":         "long history",
		"receipts are cut to the first":                "first commit",
		"ids are compared by prefix":                   "first commit",
		"an absent receipt is unavailable":             "empty store",
		"a check writes":                               "check commit",
		"a check passes what a commit refuses":         "invalid requests",
		"a read writes":                                "reads change nothing",
		"an audit leaves out the newest row":           "spelling",
		"a bookmark is trusted":                        "rewritten history",
		"a bookmark's state digest is not looked at":   "rewritten history",
		"a view shows what came later":                 "view is a snapshot",
		"a second handle remembers what it saw first":  "two handles",
		"every handle has an identity of its own":      "first commit",
		"a cancelled context is ignored":               "cancelled",
		"the head is compared before the lock is held": "committers on one handle",
	} {
		t.Run(string(planted), func(t *testing.T) {
			for _, c := range checks {
				if c.name == finder && len(failures(t, c, naiveHarness(planted))) == 0 {
					t.Errorf("the check %q passes a store in which %s", c.name, planted)
				}
			}
		})
	}
}

// TestRandomCommitsFind: the random check finds bugs on its own.
func TestRandomCommitsFind(t *testing.T) {
	for _, planted := range []bug{"the spelling of the caller is kept", "a full page always has more", "a stale revision is taken"} {
		if len(failures(t, check{"random commits", randomCommits}, naiveHarness(planted))) == 0 {
			t.Errorf("random commits pass a store in which %s", planted)
		}
	}
}

// recorder is a test that may fail without failing the test around it.
type recorder struct {
	testing.TB
	failed []string
}

// failures runs one check on a goroutine of its own, which FailNow can end.
func failures(t *testing.T, c check, h Harness) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(r, h)
	}()
	<-done
	return r.failed
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", strings.TrimSpace(fmt.Sprintln(args...))) }
func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprintln(args...)) }
func (r *recorder) FailNow()          { r.Fatalf("fail now") }
func (r *recorder) Fail()             { r.Errorf("fail") }
func (r *recorder) Failed() bool      { return len(r.failed) > 0 }
func (r *recorder) Logf(string, ...any) {
	// rapid prints what it found; here that is expected
}
func (r *recorder) Log(...any) {}
