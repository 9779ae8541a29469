package rehearsal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/evidence"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
	"github.com/loopx-project/loopx-migrate/internal/pgtest"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/parity"
	"github.com/loopx-project/loopx-migrate/rehearsal"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const goal = "harbour-crane"

// seesFrozen is a writer that looks before it writes, in this process.
type seesFrozen struct {
	place authority.Place
	arm   authority.Kind
}

func (p seesFrozen) Probe(ctx context.Context) (manifest.Probe, error) {
	o, err := fence.Observe(ctx, p.place, func(context.Context, fence.Selection) (authority.Identity, error) {
		return "", errors.New("the model looks no further than the selector")
	})
	v := o.Authority()
	return manifest.Probe{By: "model", Arm: string(p.arm), Refused: v.Blocked, Answer: v.Reason, At: time.Now().UTC()}, err
}

// stage is a source and a rehearsal of it.
type stage struct {
	*testing.T
	root   string
	config rehearsal.Config
}

func newStage(t *testing.T, arms ...authority.Kind) *stage {
	t.Helper()
	s := &stage{T: t, root: filepath.Join(fixture.Copy(t, "goal-file-v1"), "runtime")}
	place, err := authority.NewPlace(s.root, goal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.root, "goals", goal), 0o700); err != nil {
		t.Fatal(err)
	}
	principal, err := cutover.Principal()
	if err != nil {
		t.Fatal(err)
	}
	s.config = rehearsal.Config{Place: place, Stores: store.Opener{Wait: 2 * time.Second}, Clock: time.Now, ID: "reh-test", Arms: arms,
		Guard: &rehearsal.Guard{}, MaxStall: time.Minute, Parent: t.TempDir(),
		Workload: func(ctx context.Context, source authority.Reader) (rehearsal.Workload, error) {
			head, err := source.Load(ctx)
			return rehearsal.BuiltIn(head.Projection, 18, time.Now()), err
		}}
	s.config.Flow = func(place authority.Place, registration fence.Registration) (*cutover.Flow, error) {
		return &cutover.Flow{Place: place, Registration: registration, Folder: manifest.Open(place), Stores: s.config.Stores, Clock: time.Now,
			Principal: principal, LockWait: 2 * time.Second,
			Probes: func(arm authority.Kind) fence.Prober { return seesFrozen{place, arm} }}, nil
	}
	return s
}

// onServer gives the PostgreSQL arm a database of its own.
func (s *stage) onServer() {
	s.Helper()
	db := pgtest.New(s.T)
	server := pgstore.Server{DSN: db.DSN(pgtest.Admin)}
	if _, err := pgstore.Install(s.Context(), server, pgstore.InstallOptions{Identity: pgstore.NewIdentity()}); err != nil {
		s.Fatal(err)
	}
	at, err := pgstore.Locate(s.Context(), server)
	if err != nil {
		s.Fatal(err)
	}
	s.config.Server = &rehearsal.Server{URL: server.DSN, Tenant: "copies", At: rehearsal.Whereabouts{System: at.System, Database: at.Database}}
}

// run rehearses, and sees that the source is what it was and that no copy is left.
func (s *stage) run(ctx context.Context) (*evidence.Rehearsal, error) {
	s.Helper()
	before := fixture.TreeHash(s, s.root)
	report, _, err := rehearsal.Run(ctx, s.config)
	fixture.Unchanged(s, s.root, before)
	if left, failed := os.ReadDir(s.config.Parent); failed != nil || len(left) != 0 {
		s.Errorf("%d copies are left, %v", len(left), failed)
	}
	return report, err
}

// Three arms do the same, every way back is proved, and what is missing is said: nobody
// planted a difference here.
func TestThreeArms(t *testing.T) {
	s := newStage(t, authority.KindSQLite, authority.KindPostgreSQL)
	s.onServer()
	report, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Result != evidence.Incomplete || len(report.Reasons) != 1 || !strings.Contains(report.Reasons[0], "planted") {
		t.Fatalf("%s %q, first %+v, %+v", report.Result, report.Reasons, report.First, report.NotChecked)
	}
	if len(report.Arms) != 3 || len(report.WayBack) != 2 || len(report.Stalls) != 4 || !report.Source.Untouched() {
		t.Fatalf("%d arms, %d ways back, %d stalls", len(report.Arms), len(report.WayBack), len(report.Stalls))
	}
	for _, way := range report.WayBack {
		if !way.Proved || way.Exported == 0 {
			t.Errorf("way back: %+v", way)
		}
	}
	for _, a := range report.Arms[1:] {
		if a.LogicalDigest != report.Arms[0].LogicalDigest || a.HeadDigest != report.Arms[0].HeadDigest || a.Transactions != 231+report.WayBack[0].Exported {
			t.Errorf("%s: %+v", a.Name, a)
		}
	}
	if report.Plan.Cursor != 231 || report.Plan.SourceIdentity != authority.Identity(fixture.ExpectedGoal(t, "goal-file-v1").StoreIdentity) ||
		!slices.Equal(report.Plan.Targets, []authority.Kind{authority.KindSQLite, authority.KindPostgreSQL}) {
		t.Errorf("plan: %+v", report.Plan)
	}
	checksMade(t, report)
	text, err := report.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.DecodeRehearsal(text); err != nil || strings.Contains(string(text), s.config.Parent) || strings.Contains(string(text), s.root) {
		t.Errorf("%v; or a path is in it: %s", err, text)
	}
}

// spoiler lets the SQLite arm of a rehearsal commit one operation otherwise.
type spoiler struct {
	cutover.Stores
	operation string
}

type spoilt struct {
	cutover.History
	operation string
}

func (s spoiler) Open(ctx context.Context, ref cutover.Ref) (cutover.History, error) {
	store, err := s.Stores.Open(ctx, ref)
	if err == nil && ref.Kind == authority.KindSQLite && ref.Access == cutover.AccessWrite {
		if _, fenced := store.(cutover.Fencer); fenced {
			return struct {
				spoilt
				cutover.Fencer
			}{spoilt{store, s.operation}, store.(cutover.Fencer)}, nil
		}
	}
	return store, err
}

func (s spoilt) Commit(ctx context.Context, r authority.CommitRequest) (authority.Applied, error) {
	if r.OperationID == s.operation {
		r.Receipts = []byte(strings.Replace(string(r.Receipts), `"op":"lease_acquire"`, `"op":"lease_acquired"`, 1))
	}
	return s.History.Commit(ctx, r)
}

// Two arms against one: the odd one is named, with the cursor and the field.
func TestTheOddArmIsNamed(t *testing.T) {
	s := newStage(t, authority.KindSQLite, authority.KindPostgreSQL)
	s.onServer()
	s.config.Stores = spoiler{s.config.Stores, "rehearsal-000002"}
	report, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Result != evidence.Failed || report.OddArm != "sqlite" || report.First == nil || report.First.Cursor != 233 ||
		report.First.OperationID != "rehearsal-000002" || report.First.Field != "receipts[todo_rehearsal_0001].op" {
		t.Fatalf("%s, odd arm %q, first %+v", report.Result, report.OddArm, report.First)
	}
	for _, way := range report.WayBack {
		if way.Proved != (way.Arm == "postgresql") {
			t.Errorf("way back of %s: %v", way.Arm, way.Proved)
		}
	}
}

// The written journal of another kind of source, and a workload that a history recorded.
func TestRecordedWorkload(t *testing.T) {
	s := newStage(t, authority.KindSQLite)
	s.config.Workload = func(ctx context.Context, source authority.Reader) (rehearsal.Workload, error) {
		return rehearsal.Recorded(ctx, source, 40, time.Now())
	}
	report, err := s.run(t.Context())
	if err != nil || report.Result != evidence.Incomplete || len(report.Reasons) != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	if report.Workload.Origin != "recorded" || report.Workload.Operations["todo_put"]+report.Workload.Operations["lease_put"] < 40 {
		t.Errorf("workload: %+v", report.Workload)
	}
	if want := fixture.ExpectedGoal(t, "goal-file-v1").HeadSHA256; report.Arms[0].HeadDigest.String() != want {
		t.Errorf("put again, the head is %s, it was %s", report.Arms[0].HeadDigest, want)
	}
}

func TestInterruptedItLeavesNothing(t *testing.T) {
	s := newStage(t, authority.KindSQLite)
	ctx, cancel := context.WithCancel(t.Context())
	s.config.Watch = func(p cutover.Progress) {
		if p.Act == "work" && p.Arm == "sqlite" && p.Done == 3 {
			cancel()
		}
	}
	if report, err := s.run(ctx); cutover.AsRefusal(err).Kind != cutover.KindInterrupted || report != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAChangedSourceFails(t *testing.T) {
	s := newStage(t, authority.KindSQLite)
	note := filepath.Join(s.root, "goals", goal, "note")
	s.config.Watch = func(p cutover.Progress) {
		if p.Act == "work" {
			if err := os.WriteFile(note, []byte("x"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	report, _, err := rehearsal.Run(t.Context(), s.config)
	if err != nil || report.Result != evidence.Failed || report.Source.Untouched() || !slices.Contains(report.Reasons, "the source changed while it was rehearsed") {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestWhatCannotBeRehearsed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*stage)
		reason string
	}{
		"a legacy arm of a journal":   {func(s *stage) { s.config.Arms = []authority.Kind{authority.KindLegacy} }, "arm_not_possible"},
		"nothing that is migrated":    {func(s *stage) { s.config.Arms = []authority.Kind{authority.KindFile} }, "arm_required"},
		"a server arm without one":    {func(s *stage) { s.config.Arms = []authority.Kind{authority.KindPostgreSQL} }, "server_required"},
		"a link in the source":        {func(s *stage) { s.link() }, "source_holds_link"},
		"copies inside the source":    {func(s *stage) { s.config.Parent = filepath.Join(s.root, "goals") }, "rehearsal_on_production"},
		"a server that is production": {func(s *stage) { s.productionServer() }, "rehearsal_on_production"},
	} {
		s := newStage(t, authority.KindSQLite)
		c.spoil(s)
		before := fixture.TreeHash(t, s.root)
		_, _, err := rehearsal.Run(t.Context(), s.config)
		if got := cutover.AsRefusal(err).Reason; got != c.reason {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.reason)
		}
		fixture.Unchanged(t, s.root, before)
	}
}

func (s *stage) link() {
	s.Helper()
	if err := os.Symlink(s.root, filepath.Join(s.root, "goals", goal, "elsewhere")); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) productionServer() {
	at := rehearsal.Whereabouts{System: "1", Database: "1:loopx"}
	s.config.Guard.Servers = []rehearsal.Whereabouts{at}
	s.config.Server = &rehearsal.Server{URL: "postgres://elsewhere/loopx", Tenant: "copies", At: at}
}

// checksMade fails unless each check was made that is to be, on something, and found nothing.
func checksMade(t *testing.T, report *evidence.Rehearsal) {
	t.Helper()
	made := map[string]int{}
	for _, v := range report.Verdicts {
		made[v.By+" "+v.Check]++
		if v.Outcome == parity.Differs || v.Outcome == parity.Failed || v.Outcome == parity.Equal && v.Compared == 0 {
			t.Errorf("%+v", v)
		}
	}
	for check, times := range map[string]int{"rehearsal answers": 1, "parity head": 1, "parity receipts": 1, "parity scans": 1, "parity lineage": 1, "parity consumers": 1,
		"parity way_back_lineage": 2, "parity way_back_receipts": 2} {
		if made[check] != times {
			t.Errorf("%s was made %d times, want %d", check, made[check], times)
		}
	}
}
