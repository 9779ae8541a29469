package coordination

// Mode is how a Goal hands work over.
type Mode string

// The handoff modes, spelled as LoopX spells them.
const (
	// LegacyMode allows both ways of taking work. It is the default.
	LegacyMode Mode = "legacy"
	// SoftClaim knows claims only: no lease is acquired, renewed or transferred.
	SoftClaim Mode = "soft_claim"
	// HardLease lets nobody change a claim or retire a Todo without its active lease.
	HardLease Mode = "hard_lease"
)

var modeWords = []string{string(LegacyMode), string(SoftClaim), string(HardLease)}
