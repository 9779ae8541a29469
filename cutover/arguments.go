package cutover

import (
	"fmt"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// placeDigest names where a target is, without saying it: a path never leaves the host.
func placeDigest(to Target) string {
	if to.Path == "" {
		return ""
	}
	return authority.DigestOf([]byte(to.Path)).String()
}

// parityText is what was asked of a comparison, as part of a command's content.
func parityText(o ParityOptions) string {
	if intentParity(o).IsZero() {
		return ""
	}
	return fmt.Sprintf("%d %q %v", o.MinimumOperations, o.RequireEventKinds, o.PageSizes)
}

func intentParity(o ParityOptions) manifest.Parity {
	return manifest.Parity{MinimumOperations: o.MinimumOperations, RequireEventKinds: o.RequireEventKinds, PageSizes: o.PageSizes}
}

func parityOf(p manifest.Parity) ParityOptions {
	return ParityOptions{MinimumOperations: p.MinimumOperations, RequireEventKinds: p.RequireEventKinds, PageSizes: p.PageSizes}
}

// previousPromotion is the migration whose target is the authority while another begins.
func previousPromotion(before manifest.Snapshot) string {
	m := before.Manifest
	if m == nil {
		return ""
	}
	if m.Phase == manifest.PhasePromoted {
		return m.MigrationID
	}
	if m.Phase == manifest.PhaseAborted {
		return m.Previous
	}
	return ""
}

// lastWayBack is what a promotion costs a Goal that an earlier migration promoted: there is a
// way back through the newest migration only.
func lastWayBack(previous string, source authority.Kind) string {
	return "from then on the way back leads to " + string(source) + " and no further: migration " + previous + " can never be rolled back again"
}

// reinstate makes the promoted migration current again that was so before one that was
// given up; only the current one can be rolled back.
func (f *Flow) reinstate(w *work) error {
	if w.m.Phase != manifest.PhaseAborted || w.m.Previous == "" {
		return nil
	}
	current, err := f.Folder.Load()
	if err != nil || current.Manifest == nil || current.Manifest.MigrationID != w.m.MigrationID {
		return err // it was reinstated before this command was asked again
	}
	previous, err := f.Folder.LoadClosed(w.m.Previous)
	if err != nil || previous.Manifest == nil {
		return err
	}
	_, err = f.Folder.Save(current, previous.Manifest)
	return err
}

// boundBookmark is the place in a live history that a plan binds, zero over a frozen one.
func (p Plan) boundBookmark() authority.Bookmark {
	if !p.Manifest.IsZero() {
		return authority.Bookmark{}
	}
	side := p.Source
	if p.Command == CommandRollback {
		side = p.Target
	}
	if side.Revision == "" {
		return authority.Bookmark{} // legacy files: they have no place that could be bound
	}
	return authority.Bookmark{Cursor: side.Cursor, Revision: side.Revision}
}
