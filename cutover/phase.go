package cutover

import (
	"slices"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Commands of the flow.
const (
	CommandFreeze   = "freeze"
	CommandImport   = "import"
	CommandCompare  = "compare"
	CommandPromote  = "promote"
	CommandAbort    = "abort"
	CommandRollback = "rollback"
	CommandCutover  = "cutover"
	CommandResume   = "resume"
)

// moves is the table of legal moves: in which phases a command may begin. Which
// phase it ends in is the command's own result; an import of a live source, for
// one, stays planned.
var moves = map[string][]manifest.Phase{
	CommandFreeze: {manifest.PhaseNone, manifest.PhasePlanned, manifest.PhaseAborted, manifest.PhaseRolledBack, manifest.PhasePromoted},
	CommandImport: {manifest.PhaseNone, manifest.PhasePlanned, manifest.PhaseFrozen, manifest.PhaseImported, manifest.PhaseAborted,
		manifest.PhaseRolledBack, manifest.PhasePromoted},
	CommandCutover: {manifest.PhaseNone, manifest.PhasePlanned, manifest.PhaseAborted, manifest.PhaseRolledBack, manifest.PhasePromoted},
	CommandCompare: {manifest.PhasePlanned, manifest.PhaseImported, manifest.PhaseVerified},
	CommandPromote: {manifest.PhaseVerified},
	CommandAbort: {manifest.PhasePlanned, manifest.PhaseFrozen, manifest.PhaseImported, manifest.PhaseVerified,
		manifest.PhaseTargetFenced, manifest.PhaseExported},
	CommandRollback: {manifest.PhasePromoted},
}

// may reports whether a command may begin in a phase.
func may(command string, phase manifest.Phase) bool {
	return slices.Contains(moves[command], phase)
}

// opens reports whether a command in this phase begins a new migration.
func opens(command string, phase manifest.Phase) bool {
	begins := command == CommandFreeze || command == CommandImport || command == CommandCutover
	return begins && (phase.Closed() || phase == manifest.PhasePromoted)
}

// NextFreeze are the arguments of a freeze of a source of that kind. It names a target that
// is possible: no store is migrated to its own kind. A freeze of legacy files is refused
// without the attestation.
func NextFreeze(source authority.Kind) []string {
	to := "sqlite:"
	if source == authority.KindSQLite {
		to = "file:"
	}
	return attested([]string{CommandFreeze, "--to", to}, source)
}

func attested(freeze []string, source authority.Kind) []string {
	if source == authority.KindLegacy {
		freeze = append(freeze, "--writers-stopped")
	}
	return freeze
}

// nextStep is what an operator does next in a phase, as arguments of the command line.
func nextStep(phase manifest.Phase, source authority.Kind) []string {
	switch phase {
	case manifest.PhaseNone, manifest.PhaseAborted, manifest.PhaseRolledBack:
		return NextFreeze(source)
	case manifest.PhasePlanned: // its target is on record
		return attested([]string{CommandFreeze}, source)
	case manifest.PhaseFrozen:
		return []string{CommandImport}
	case manifest.PhaseImported:
		return []string{CommandCompare}
	case manifest.PhaseVerified:
		return []string{CommandPromote}
	case manifest.PhaseTargetFenced, manifest.PhaseExported:
		return []string{CommandResume}
	}
	return []string{"status"}
}
