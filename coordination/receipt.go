package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// ReceiptSchema is the schema of every receipt made here.
const ReceiptSchema = "loopx_authority_receipt_v0"

// Verb is the type of a command.
type Verb string

// The commands. The first five are LoopX's own; the rest are what workloads and
// migrations need beside them.
const (
	ClaimWork      Verb = "claim_work"
	RenewWork      Verb = "renew_work"
	ReleaseWork    Verb = "release_work"
	ReclaimWork    Verb = "reclaim_work"
	CompleteWork   Verb = "complete_work"
	CreateTodo     Verb = "create_todo"
	UpdateTodo     Verb = "update_todo"
	SupersedeTodo  Verb = "supersede_todo"
	ArchiveTodo    Verb = "archive_todo"
	OverrideClaim  Verb = "override_claim"
	SetHandoffMode Verb = "set_handoff_mode"
	UpgradeVerb    Verb = "upgrade_head"
	RebindVerb     Verb = "rebind_head"
)

// Actor is who sends a command: an agent, on a device.
type Actor struct{ AgentID, DeviceID string }

func (a Actor) spell() []byte {
	return object{"agent_id": spellText(a.AgentID), "device_id": spellText(a.DeviceID)}.spell()
}

func (a *Actor) read(f *fields) {
	a.AgentID = f.text("agent_id", agentPattern.MatchString)
	a.DeviceID = f.text("device_id", devicePattern.MatchString)
}

// Receipt is the proof that a command was applied. Fields that do not belong to its
// command are zero.
type Receipt struct {
	OperationID       string
	RequestDigest     string // "sha256:" and hex
	Command           Verb
	Actor             Actor
	TodoID            string
	AuthorityRevision int64 // accepted_authority_revision: after the command
	TodoRevision      int64 // accepted_todo_revision: after the command
	AppliedAt         Instant

	LeaseID    string
	LeaseEpoch int64
	ExpiresAt  Instant

	SupersededOwner string // reclaim: whose lease had expired
	SupersededEpoch int64

	Continuation string   // complete: no_followup, successor, active_goal
	Successors   []string // complete
	Evidence     *Evidence
	SupersededBy string // supersede

	Overridden   bool   // handoff_gate_overridden: a delegated authority changed a claim
	OverrideCode string // its stated reason, one word

	Mode, PreviousMode       Mode
	PreviousSchema           string
	Binding, PreviousBinding authority.Identity
	MigrationID              string
	ManifestDigest           string // "sha256:" and hex
}

// part is a group of a receipt's members that belong together.
type part struct {
	name  string
	key   string // its presence means that the part is there
	read  func(*Receipt, *fields)
	spell func(*Receipt, object)
}

var parts = []part{
	{"todo", "todo_id", func(r *Receipt, f *fields) {
		r.TodoID = f.text("todo_id", todoPattern.MatchString)
		r.TodoRevision = f.integer("accepted_todo_revision", 0)
	}, func(r *Receipt, o object) {
		o["todo_id"], o["accepted_todo_revision"] = spellText(r.TodoID), spellInteger(r.TodoRevision)
	}},
	{"lease", "lease_id", func(r *Receipt, f *fields) {
		r.LeaseID = f.text("lease_id", leasePattern.MatchString)
		r.LeaseEpoch = f.integer("lease_epoch", 1)
	}, func(r *Receipt, o object) {
		o["lease_id"], o["lease_epoch"] = spellText(r.LeaseID), spellInteger(r.LeaseEpoch)
	}},
	{"expiry", "expires_at", func(r *Receipt, f *fields) { r.ExpiresAt = f.instant("expires_at") },
		func(r *Receipt, o object) { o["expires_at"] = spellText(string(r.ExpiresAt)) }},
	{"superseded", "superseded_owner", func(r *Receipt, f *fields) {
		r.SupersededOwner = f.text("superseded_owner", agentPattern.MatchString)
		r.SupersededEpoch = f.integer("superseded_lease_epoch", 1)
	}, func(r *Receipt, o object) {
		o["superseded_owner"], o["superseded_lease_epoch"] = spellText(r.SupersededOwner), spellInteger(r.SupersededEpoch)
	}},
	{"completion", "completion_continuation", func(r *Receipt, f *fields) {
		r.Continuation = f.oneOf("completion_continuation", noFollowup, successor, activeGoal)
		r.Successors = f.texts("successor_todo_ids", todoPattern.MatchString)
	}, func(r *Receipt, o object) {
		o["completion_continuation"], o["successor_todo_ids"] = spellText(r.Continuation), spellTexts(r.Successors)
	}},
	{"evidence", "evidence", func(r *Receipt, f *fields) { r.Evidence = new(Evidence); f.nested("evidence", r.Evidence.read) },
		func(r *Receipt, o object) { o["evidence"] = r.Evidence.spell() }},
	{"superseded_by", "superseded_by", func(r *Receipt, f *fields) { r.SupersededBy = f.text("superseded_by", todoPattern.MatchString) },
		func(r *Receipt, o object) { o["superseded_by"] = spellText(r.SupersededBy) }},
	{"override", "handoff_gate_overridden", func(r *Receipt, f *fields) {
		r.Overridden = f.flag("handoff_gate_overridden")
		r.OverrideCode = f.text("override_reason_code", codeWordPattern.MatchString)
	}, func(r *Receipt, o object) {
		o["handoff_gate_overridden"], o["override_reason_code"] = spellBool(r.Overridden), spellText(r.OverrideCode)
	}},
	{"mode", "handoff_mode", func(r *Receipt, f *fields) {
		r.Mode = Mode(f.oneOf("handoff_mode", modeWords...))
		r.PreviousMode = Mode(f.oneOf("previous_handoff_mode", modeWords...))
	}, func(r *Receipt, o object) {
		o["handoff_mode"], o["previous_handoff_mode"] = spellText(string(r.Mode)), spellText(string(r.PreviousMode))
	}},
	{"binding", "store_binding", func(r *Receipt, f *fields) {
		r.Binding = authority.Identity(f.text("store_binding", isBinding))
	}, func(r *Receipt, o object) { o["store_binding"] = spellText(string(r.Binding)) }},
	{"schema", "previous_schema_version", func(r *Receipt, f *fields) {
		r.PreviousSchema = f.oneOf("previous_schema_version", SchemaV0)
	}, func(r *Receipt, o object) { o["previous_schema_version"] = spellText(r.PreviousSchema) }},
	{"migration", "migration_id", func(r *Receipt, f *fields) {
		r.MigrationID = f.text("migration_id", operationPattern.MatchString)
		r.ManifestDigest = f.text("manifest_digest", isDigest)
		r.PreviousBinding = authority.Identity(f.text("previous_store_binding", isBinding))
	}, func(r *Receipt, o object) {
		o["migration_id"], o["manifest_digest"] = spellText(r.MigrationID), spellText(r.ManifestDigest)
		o["previous_store_binding"] = spellText(string(r.PreviousBinding))
	}},
}

// makeup is which parts the receipt of a command must and may have.
var makeup = map[Verb]struct{ must, may string }{
	ClaimWork:      {"todo", "lease expiry"}, // a claim in mode soft_claim has no lease
	RenewWork:      {"todo lease expiry", ""},
	ReleaseWork:    {"todo", "lease"},
	ReclaimWork:    {"todo lease expiry superseded", ""},
	CompleteWork:   {"todo completion", "lease evidence"},
	CreateTodo:     {"todo", ""},
	UpdateTodo:     {"todo", "lease"},
	SupersedeTodo:  {"todo superseded_by", "lease"},
	ArchiveTodo:    {"todo", ""},
	OverrideClaim:  {"todo override", "superseded"},
	SetHandoffMode: {"mode", ""},
	UpgradeVerb:    {"schema binding", ""},
	RebindVerb:     {"binding migration", ""},
}

// ParseReceipt reads a receipt: a closed set of members, those of its command. The error
// is a *HeadError.
func ParseReceipt(text authority.Canonical) (Receipt, error) {
	r, fault := readReceipt("", text)
	if fault != nil {
		return Receipt{}, fault
	}
	return r, nil
}

func readReceipt(path string, text []byte) (Receipt, *HeadError) {
	f := openFields(path, text)
	var r Receipt
	f.oneOf("schema_version", ReceiptSchema)
	r.OperationID = f.text("operation_id", anyText)
	r.RequestDigest = f.text("request_digest", isDigest)
	r.Command = Verb(f.text("command", func(s string) bool { _, known := makeup[Verb(s)]; return known }))
	f.nested("actor", r.Actor.read)
	r.AuthorityRevision = f.integer("accepted_authority_revision", 1)
	r.AppliedAt = f.instant("applied_at")
	rule := makeup[r.Command]
	must, may := strings.Fields(rule.must), strings.Fields(rule.may)
	for _, p := range parts {
		if slices.Contains(must, p.name) || slices.Contains(may, p.name) && f.has(p.key) {
			p.read(&r, f)
		}
	}
	if r.Command == ClaimWork && (r.LeaseID == "") != (r.ExpiresAt == "") {
		f.blame("expires_at", "a lease and its end stand only together")
	}
	return r, f.close()
}

// Canonical spells the receipt.
func (r Receipt) Canonical() authority.Canonical {
	o := object{
		"schema_version": spellText(ReceiptSchema), "operation_id": spellText(r.OperationID), "request_digest": spellText(r.RequestDigest),
		"command": spellText(string(r.Command)), "actor": r.Actor.spell(), "accepted_authority_revision": spellInteger(r.AuthorityRevision),
		"applied_at": spellText(string(r.AppliedAt)),
	}
	rule := makeup[r.Command]
	must, may := strings.Fields(rule.must), strings.Fields(rule.may)
	present := map[string]bool{"lease": r.LeaseID != "", "expiry": r.ExpiresAt != "", "evidence": r.Evidence != nil, "superseded": r.SupersededOwner != ""}
	for _, p := range parts {
		if slices.Contains(must, p.name) || slices.Contains(may, p.name) && present[p.name] {
			p.spell(&r, o)
		}
	}
	return o.spell()
}

// Evidence points to what a completion rests on. The body stays where it is.
type Evidence struct {
	Pointer      string // artifact://public/ID or artifact://private/ID
	Digest       string // "sha256:" and hex
	PrivacyClass string // public or private, as in the pointer
}

func (e *Evidence) read(f *fields) {
	e.PrivacyClass = f.oneOf("privacy_class", "public", "private")
	e.Pointer = f.text("pointer", func(s string) bool {
		m := artifactPattern.FindStringSubmatch(s)
		return m != nil && m[1] == e.PrivacyClass
	})
	e.Digest = f.text("digest", isDigest)
}

func (e *Evidence) spell() []byte {
	return object{"pointer": spellText(e.Pointer), "digest": spellText(e.Digest), "privacy_class": spellText(e.PrivacyClass)}.spell()
}

// receiptOf finds the one receipt of ours in what a store holds under an operation id.
func receiptOf(receipts authority.Canonical) (text authority.Canonical, found bool) {
	for element := range canonical.Elements(receipts) {
		if takeApart(element).text("schema_version") != ReceiptSchema {
			continue
		}
		if found {
			return nil, false
		}
		text, found = element, true
	}
	return text, found
}
