package authority

import "context"

// Reader answers questions about one Goal's history. All its refusals are *Error.
//
// Every answer stands on a state that was committed; two calls may see two states.
type Reader interface {
	Kind() Kind
	GoalID() string

	// Identity returns the incarnation of the store.
	Identity(ctx context.Context) (Identity, error)

	// Load returns the head. A store without a transaction is ClassMissing.
	Load(ctx context.Context) (Head, error)

	// Receipt returns what the operation got when it was committed. An operation
	// that never was is ClassMissing; a malformed id is ClassFailed.
	Receipt(ctx context.Context, operationID string) (Receipt, error)

	// Scan returns the transactions after a cursor, at most limit of them, in
	// order. A limit below 1 is ReasonInvalidScan, decided before any I/O; a
	// cursor beyond the head is ReasonScanRange. HasMore is proved by reading
	// one more row, which is validated like the others.
	Scan(ctx context.Context, after Cursor, limit int) (Page, error)
}

// Store is a Reader that also takes commits.
type Store interface {
	Reader

	// Commit appends one transaction if the head still has the expected revision
	// and the operation id is new: both or neither of state and receipt are then
	// durable. ClassConflict carries the current head. ClassAmbiguous means that
	// only Receipt can tell whether it happened.
	Commit(ctx context.Context, request CommitRequest) (Applied, error)

	// CheckCommit answers what Commit would refuse, from the same decision, and
	// writes nothing and takes no lock. Nil means that Commit would go on to write.
	CheckCommit(ctx context.Context, request CommitRequest) error

	Close() error
}

// Bookmark is a place in a history that an audit has proved, so that a later
// audit need only read on from there. It is meaningful to the store that made it.
type Bookmark struct {
	Cursor      Cursor   `json:"cursor"`
	Revision    Revision `json:"revision"`
	StateDigest Digest   `json:"state_digest"`
	// Logical is the state of the logical digest after that row.
	Logical LogicalState `json:"logical"`
	// Position is the store's own note (byte offsets and the like).
	Position string `json:"position,omitempty"`
}

// Row is one verified transaction as an audit meets it. Its bytes are valid only
// until the visit returns.
type Row struct {
	Transaction
	StateDigest Digest // of Projection
}

// Lineage is what an audit has proved of a whole history.
type Lineage struct {
	Format       Format
	Identity     Identity
	Transactions uint64
	Events       uint64
	Receipts     uint64
	Bytes        int64  // size of the store as read
	Logical      Digest // over all rows, the same whatever store holds them
	End          Bookmark
	Findings     Findings // harmless oddities; a defect is an error instead
}

// Auditor proves a whole history: every link of the chain, every digest,
// canonical form, identity and order, also where LoopX's reads would not look.
type Auditor interface {
	// Audit verifies from the beginning, or from a bookmark, and shows each row in
	// order to visit (which may be nil). A bookmark whose row no longer stands
	// where it stood is ReasonRewritten. The first defect ends the audit, as
	// ClassFailed with cursor and field; an error of visit ends it with that error.
	// A store without a transaction gives an empty Lineage and no error.
	Audit(ctx context.Context, from *Bookmark, visit func(Row) error) (Lineage, error)
}

// View is a verified snapshot of a history that answers many questions without
// proving everything again. It shows the history as it was when it was made.
type View interface {
	Reader
	Lineage() Lineage
	// Operations returns every operation id in cursor order.
	Operations(ctx context.Context) ([]string, error)
	Close() error
}

// Viewer makes a View by one audit.
type Viewer interface {
	View(ctx context.Context) (View, error)
}

// Finding is one remark about a history: a defect, or an oddity that is harmless.
type Finding struct {
	Code        string `json:"code"`
	Cursor      Cursor `json:"cursor,omitempty"`
	OperationID string `json:"operation_id,omitempty"`
	Field       string `json:"field,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

// Findings is a list of remarks.
type Findings []Finding

// Codes of harmless oddities.
const (
	// FindingSpelling: valid JSON, but not in canonical form.
	FindingSpelling = "spelled_otherwise"
	// FindingDuplicateKey: a key stands twice in one object; the last one counts.
	FindingDuplicateKey = "duplicate_key"
	// FindingInexactInteger: an integer beyond 2^53; two readers may see two values.
	FindingInexactInteger = "integer_beyond_2_53"
	// FindingExtraTable: a table beside LoopX's own.
	FindingExtraTable = "extra_table"
	// FindingStrayCheckpoint: a checkpoint row off the grid, which LoopX ignores.
	FindingStrayCheckpoint = "stray_checkpoint"
	// FindingReadModel: todo_read_model does not match the records beside it.
	FindingReadModel = "read_model_mismatch"
)
