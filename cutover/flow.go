package cutover

import (
	"context"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/bootstrap"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Access says how a store is opened.
type Access int

// The ways to open a store.
const (
	// AccessUntouched reads and leaves not one byte changed, also on a read-only mount.
	AccessUntouched Access = iota
	// AccessLive reads a store that LoopX may be writing, as LoopX itself would.
	AccessLive
	// AccessWrite may append to a store that is there.
	AccessWrite
	// AccessCreate may begin a store in the format of the reference.
	AccessCreate
)

// Ref names a store to be opened.
type Ref struct {
	Kind     authority.Kind
	Goal     string
	Path     string             // document or database
	Identity authority.Identity // expected, when known
	// IdentityFile is the file store's identity file, which is shared by the Goals
	// of its folder and stays there when a journal is moved.
	IdentityFile string
	Format       authority.Format // of a store that AccessCreate begins
	// Tenant and CandidateID name a Goal in a database server, and the candidate it may be.
	Tenant      string
	CandidateID string
	Server      string // URL without a password
	Quarantine  string // id under which a database keeps the Goal set aside; it is read only
	// Live is where the legacy files are, for KindLegacy without a Path of kept ones.
	Live LegacyFiles
	// Retained is the archive that the history of legacy files begins with, empty for none.
	Retained string
	// Moving says that LoopX may write the store meanwhile, so that its bytes prove nothing.
	Moving bool
	Access Access
}

// LegacyFiles are the places of the files before any store.
type LegacyFiles struct {
	Root      string // the runtime root
	StateFile string
	EventLogs map[string]string // by registry key
}

// History is a store that can be audited and viewed.
type History interface {
	authority.Store
	authority.Auditor
	authority.Viewer
}

// Stores opens stores. Only the command line knows the drivers.
type Stores interface {
	Open(ctx context.Context, ref Ref) (History, error)
	// Candidate opens a store under construction, and makes it if it is not there.
	Candidate(ctx context.Context, ref Ref) (bootstrap.Candidate, error)
	// Settle brings a database into one file that can be moved: no log beside it has content.
	Settle(ctx context.Context, ref Ref) error
	// Unholdable names what a store of that kind cannot hold exactly of one transaction.
	Unholdable(ref Ref, row authority.Row) authority.Findings
	// AdoptIdentity gives the folder of a journal the identity of the reference, unless it
	// has that already; authority.ReasonForeignStore if it has another.
	AdoptIdentity(ref Ref) error
	// JournalLimit is the longest journal LoopX reads, in UTF-16 units.
	JournalLimit() int64
	// Measure begins to measure a journal of the reference's format that is size bytes long
	// and ends there with this projection; zero values are a journal that is begun.
	Measure(ref Ref, size int64, end authority.Applied, newest authority.Canonical) (Measure, error)
	// Suits refuses a place whose file system lacks what durability needs.
	Suits(dir string) error
}

// Probes makes the negative probe for an arm: a process that tries to write.
type Probes func(arm authority.Kind) fence.Prober

// Flow is a migration of one Goal, as one principal sees it.
type Flow struct {
	Place     authority.Place
	Folder    *manifest.Folder
	Stores    Stores
	Probes    Probes
	Clock     func() time.Time
	Principal string // operating-system user, or a database role; see Principal and RolePrincipal
	Actor     string // label beside it
	Watch     func(Progress)
	LockWait  time.Duration
	// Registration is what the registry says of the Goal; empty without a registry.
	Registration fence.Registration
	// Server is the URL of a database server as it was given now, without a password.
	Server string
	// Program is this program and its version, which a rehearsal must have been made by.
	Program string
}

// Progress is one sign of life of long work.
type Progress struct {
	Act   string // verify, copy, compare
	Arm   string
	Done  uint64 // rows
	Total uint64 // rows, 0 when unknown
}

// Request is what an operator asks for.
type Request struct {
	Command     string
	OperationID string
	Execute     bool
	PlanDigest  string           // with Execute
	Through     authority.Cursor // with Execute, over a live source: N of the plan
	To          Target
	Accept      []manifest.Accepted
	Parity      ParityOptions
	// WritersStopped attests that no writer of the legacy files runs.
	WritersStopped bool
	// MaxStall is the longest write stall a cutover may cause.
	MaxStall time.Duration
	// Rehearsal is what a promotion asks of a rehearsal.
	Rehearsal RehearsalDemand
	// Principal is whose grant is given or withdrawn.
	Principal string
	// Store is the identity of the authority that the operator of upgrade-head verified.
	Store authority.Identity
}

// Result is what a command answers.
type Result struct {
	Command     string
	Status      string // preview, done, replayed, nothing_to_do
	OperationID string
	MigrationID string
	Phase       manifest.Phase
	Plan        *Plan
	PlanDigest  string
	Facts       map[string]string
	// Observed is what a fresh look says, beside an outcome that was stored long ago.
	Observed map[string]string
	Report   any      // parity.Report of a comparison
	Next     []string // arguments of the command to run next
}

func (f *Flow) now() time.Time { return f.Clock().UTC().Truncate(time.Millisecond) }

func (f *Flow) tell(p Progress) {
	if f.Watch != nil {
		f.Watch(p)
	}
}

// ref names the store of a kind at LoopX's own place.
func (f *Flow) ref(kind authority.Kind, access Access) Ref {
	r := Ref{Kind: kind, Goal: f.Place.GoalID(), Access: access}
	switch kind {
	case authority.KindFile:
		r.Path, r.IdentityFile = f.Place.Journal(), f.Place.StoreIdentity()
	case authority.KindSQLite:
		r.Path = f.Place.Database()
	}
	return r
}

// server is the URL of the database server, without a password: as it was given, or
// as a migration remembered it for this host.
func (f *Flow) server() (string, error) {
	if f.Server != "" {
		return f.Server, nil
	}
	host, err := f.Folder.LoadHost()
	return host.Postgres, err
}

// observe reads fence, selector and places, fresh.
func (f *Flow) observe(ctx context.Context) (fence.Observation, error) {
	return fence.Observe(ctx, f.Place, func(ctx context.Context, selected fence.Selection) (_ authority.Identity, err error) {
		ref := f.ref(selected.Provider, AccessUntouched)
		if selected.Provider == authority.KindPostgreSQL {
			ref.Tenant = selected.TenantID
			if ref.Server, err = f.server(); err != nil {
				return "", err
			}
		}
		identity, err := f.identityOf(ctx, ref)
		if busy(ref, err) && ctx.Err() == nil {
			ref.Access = AccessLive
			return f.identityOf(ctx, ref)
		}
		return identity, err
	})
}

func (f *Flow) identityOf(ctx context.Context, ref Ref) (_ authority.Identity, err error) {
	store, err := f.Stores.Open(ctx, ref)
	if err != nil {
		return "", err
	}
	defer closing(store, &err)
	return store.Identity(ctx)
}

// busy reports whether a database could not be read without touching it because it is
// written all the time: it never rests for a copy, and is then read as LoopX reads it.
func busy(ref Ref, err error) bool {
	_, reason := authority.ReasonOf(err)
	return reason == authority.ReasonReadUnavailable && ref.Kind == authority.KindSQLite && ref.Access == AccessUntouched
}
