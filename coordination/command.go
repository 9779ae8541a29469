package coordination

import (
	"slices"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// CommandSchema is the schema of the envelope in which a command comes.
const CommandSchema = "loopx_command_v0"

// MaxLeaseSeconds is the longest a lease may be asked for.
const MaxLeaseSeconds = 86400

// Names of preconditions. A coordination head knows the first six, a projection head the
// three digests, which it derives from what its records say.
const (
	tokenAuthorizationRevision = "authorization_projection_revision"
	tokenAuthorizationDigest   = "authorization_projection_digest"
	tokenDependencyRevision    = "dependency_revision"
	tokenGateRevision          = "gate_revision"
	tokenRepository            = "repository"
	tokenCodeRevision          = "code_revision"
	tokenDependencyDigest      = "dependency_digest"
	tokenGateDigest            = "gate_digest"
)

var tokenNames = []string{tokenAuthorizationRevision, tokenAuthorizationDigest, tokenDependencyRevision, tokenGateRevision,
	tokenRepository, tokenCodeRevision, tokenDependencyDigest, tokenGateDigest}

// Envelope is one attempt of one actor. Another attempt, with equal parameters even, has
// another operation id.
type Envelope struct {
	OperationID string
	Actor       Actor
	GoalID      string
	Command     Command
}

// Command is what is asked. Fields that do not belong to its type are zero.
type Command struct {
	Type             Verb
	TodoID           string
	ExpectedRevision *int64
	Preconditions    map[string]authority.Canonical // by the names above; nil when none were given

	LeaseID    string // the fence: lease and epoch
	LeaseEpoch int64
	TTLSeconds int64
	Scopes     []string // write_scopes; nil asks for those that the Todo requires

	NoFollowup bool
	Successors []string
	Evidence   *Evidence

	Set          map[string]authority.Canonical
	Clear        []string
	SupersededBy string
	NewOwner     string // override: empty frees the Todo
	ReasonCode   string // override: one word
	Mode         Mode
}

// parameter is a member of a command beside type and Todo.
type parameter struct {
	key   string
	read  func(*Command, *fields)
	spell func(*Command) []byte // nil: absent
}

var parameters = []parameter{
	{"expected_todo_revision", func(c *Command, f *fields) { n := f.integer("expected_todo_revision", 0); c.ExpectedRevision = &n },
		func(c *Command) []byte {
			return present(c.ExpectedRevision != nil, func() []byte { return spellInteger(*c.ExpectedRevision) })
		}},
	{"expected_preconditions", func(c *Command, f *fields) { f.nested("expected_preconditions", c.readTokens) },
		func(c *Command) []byte { return spellMap(c.Preconditions) }},
	{"lease_id", func(c *Command, f *fields) { c.LeaseID = f.text("lease_id", leasePattern.MatchString) },
		func(c *Command) []byte {
			return present(c.LeaseID != "", func() []byte { return spellText(c.LeaseID) })
		}},
	{"expected_lease_epoch", func(c *Command, f *fields) { c.LeaseEpoch = f.integer("expected_lease_epoch", 1) },
		func(c *Command) []byte {
			return present(c.LeaseEpoch != 0, func() []byte { return spellInteger(c.LeaseEpoch) })
		}},
	{"lease_ttl_seconds", func(c *Command, f *fields) {
		if c.TTLSeconds = f.integer("lease_ttl_seconds", 1); c.TTLSeconds > MaxLeaseSeconds {
			f.blame("lease_ttl_seconds", "longer than a day")
		}
	}, func(c *Command) []byte {
		return present(c.TTLSeconds != 0, func() []byte { return spellInteger(c.TTLSeconds) })
	}},
	{"write_scopes", func(c *Command, f *fields) { c.Scopes = append([]string{}, f.texts("write_scopes", isScope)...) },
		func(c *Command) []byte {
			return present(c.Scopes != nil, func() []byte { return spellTexts(c.Scopes) })
		}},
	{"no_followup", func(c *Command, f *fields) { c.NoFollowup = f.flag("no_followup") },
		func(c *Command) []byte {
			return present(c.Type == CompleteWork, func() []byte { return spellBool(c.NoFollowup) })
		}},
	{"successor_todo_ids", func(c *Command, f *fields) { c.Successors = f.texts("successor_todo_ids", todoPattern.MatchString) },
		func(c *Command) []byte {
			return present(c.Type == CompleteWork, func() []byte { return spellTexts(c.Successors) })
		}},
	{"evidence", func(c *Command, f *fields) { c.Evidence = new(Evidence); f.nested("evidence", c.Evidence.read) },
		func(c *Command) []byte {
			return present(c.Evidence != nil, func() []byte { return c.Evidence.spell() })
		}},
	{"set", func(c *Command, f *fields) { f.nested("set", c.readSet) },
		func(c *Command) []byte { return spellMap(c.Set) }},
	{"clear", func(c *Command, f *fields) { c.Clear = f.texts("clear", codeWordPattern.MatchString) },
		func(c *Command) []byte { return present(c.Clear != nil, func() []byte { return spellTexts(c.Clear) }) }},
	{"superseded_by", func(c *Command, f *fields) { c.SupersededBy = f.text("superseded_by", todoPattern.MatchString) },
		func(c *Command) []byte {
			return present(c.SupersededBy != "", func() []byte { return spellText(c.SupersededBy) })
		}},
	{"new_owner", func(c *Command, f *fields) { c.NewOwner = f.text("new_owner", agentPattern.MatchString) },
		func(c *Command) []byte {
			return present(c.NewOwner != "", func() []byte { return spellText(c.NewOwner) })
		}},
	{"reason_code", func(c *Command, f *fields) { c.ReasonCode = f.text("reason_code", codeWordPattern.MatchString) },
		func(c *Command) []byte {
			return present(c.ReasonCode != "", func() []byte { return spellText(c.ReasonCode) })
		}},
	{"handoff_mode", func(c *Command, f *fields) { c.Mode = Mode(f.oneOf("handoff_mode", modeWords...)) },
		func(c *Command) []byte {
			return present(c.Mode != "", func() []byte { return spellText(string(c.Mode)) })
		}},
}

func present(is bool, spell func() []byte) []byte {
	if !is {
		return nil
	}
	return spell()
}

func spellMap(m map[string]authority.Canonical) []byte {
	if m == nil {
		return nil
	}
	o := object{}
	for key, value := range m {
		o[key] = value
	}
	return o.spell()
}

// grammar is which parameters a command must and may have. All but one name a Todo.
var grammar = map[Verb]struct{ must, may string }{
	ClaimWork:      {"expected_todo_revision expected_preconditions lease_ttl_seconds", "write_scopes"},
	RenewWork:      {"lease_id expected_lease_epoch lease_ttl_seconds", ""},
	ReleaseWork:    {"", "lease_id expected_lease_epoch"},
	ReclaimWork:    {"expected_preconditions lease_ttl_seconds", "expected_todo_revision write_scopes"},
	CompleteWork:   {"no_followup successor_todo_ids", "lease_id expected_lease_epoch evidence"},
	CreateTodo:     {"set", ""},
	UpdateTodo:     {"expected_todo_revision set clear", "lease_id expected_lease_epoch"},
	SupersedeTodo:  {"expected_todo_revision superseded_by", "lease_id expected_lease_epoch"},
	ArchiveTodo:    {"expected_todo_revision", ""},
	OverrideClaim:  {"expected_todo_revision reason_code", "new_owner"},
	SetHandoffMode: {"handoff_mode", ""},
}

// ParseEnvelope reads an envelope: a closed set of members, those of its command. The
// error is a *Refusal with reason command_invalid.
func ParseEnvelope(text []byte) (Envelope, error) {
	spelled, err := canonical.Append(nil, text)
	if err != nil {
		return Envelope{}, rejected(ReasonInvalid, "", "no JSON document")
	}
	var e Envelope
	f := openFields("", spelled)
	f.oneOf("schema_version", CommandSchema)
	e.OperationID = f.text("operation_id", operationPattern.MatchString)
	e.GoalID = f.text("goal_id", anyText)
	f.nested("actor", e.Actor.read)
	f.nested("command", e.Command.read)
	if fault := f.close(); fault != nil {
		return Envelope{}, rejected(ReasonInvalid, fault.Path, fault.Detail)
	}
	return e, nil
}

func (c *Command) read(f *fields) {
	c.Type = Verb(f.text("type", func(s string) bool { _, known := grammar[Verb(s)]; return known }))
	if c.Type != SetHandoffMode {
		c.TodoID = f.text("todo_id", todoPattern.MatchString)
	}
	rule := grammar[c.Type]
	must, may := strings.Fields(rule.must), strings.Fields(rule.may)
	for _, p := range parameters {
		if slices.Contains(must, p.key) || slices.Contains(may, p.key) && f.has(p.key) {
			p.read(c, f)
		}
	}
	if (c.LeaseID == "") != (c.LeaseEpoch == 0) {
		f.blame("lease_id", "a fence is a lease and its epoch together")
	}
}

func (c *Command) readTokens(f *fields) {
	c.Preconditions = map[string]authority.Canonical{}
	for _, name := range tokenNames {
		value := f.take(name)
		if value == nil {
			continue
		}
		_, isNumber := integerOf(value)
		if strings.HasSuffix(name, "_revision") && name != tokenCodeRevision != isNumber || !isNumber && textOf(value) == "" {
			f.blame(name, "not the kind of token it names")
		}
		c.Preconditions[name] = value
	}
}

func (c *Command) readSet(f *fields) {
	c.Set = map[string]authority.Canonical{}
	for key := range f.members {
		c.Set[key] = f.take(key)
	}
}

func (e Envelope) request() object {
	c := e.Command
	o := object{"type": spellText(string(c.Type))}
	o.setText("todo_id", c.TodoID)
	for _, p := range parameters {
		if value := p.spell(&c); value != nil {
			o[p.key] = value
		}
	}
	return object{"actor": e.Actor.spell(), "goal_id": spellText(e.GoalID), "command": o.spell()}
}

// Canonical spells the envelope.
func (e Envelope) Canonical() authority.Canonical {
	o := e.request()
	o["schema_version"], o["operation_id"] = spellText(CommandSchema), spellText(e.OperationID)
	return o.spell()
}

// Digest is the request digest: actor, Goal, type, target revision, preconditions and
// parameters. Retries, and the head a retry sees, do not enter.
func (e Envelope) Digest() string { return digestText(e.request().spell()) }
