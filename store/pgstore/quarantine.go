package pgstore

import (
	"context"
	"errors"

	"github.com/loopx-project/loopx-migrate/authority"
)

// SetAside moves the Goal, which must be fenced or a candidate under this fence id, out of
// LoopX's tables into the quarantine beside them, in one transaction, and returns the id it
// is kept under. Called again it returns the same id. A candidate's place is open
// afterwards; that of a fenced Goal stays fenced, so that whoever still writes there goes
// on failing, until a candidate is created there. ClassMissing when there is nothing to
// set aside and nothing was.
func (s *Store) SetAside(ctx context.Context, fenceID string) (string, error) {
	id, err := s.call(ctx, "set aside", fenceID, "loopx_migrate_set_aside", fenceID)
	return id, s.answer("quarantine", err, unwritten)
}

// BringBack moves what was set aside back to its place, which must be empty; it stands
// there in the state, and under the fence id, that it was set aside with. Brought back
// already, there is nothing to do. It returns that fence id.
func (s *Store) BringBack(ctx context.Context, quarantineID string) (string, error) {
	id, err := s.call(ctx, "bring back", quarantineID, "loopx_migrate_bring_back", quarantineID)
	return id, s.answer("quarantine", err, unwritten)
}

// call runs a function of ours that returns the same when it is called again, so that a
// COMMIT without an answer is settled by calling it once more.
func (s *Store) call(ctx context.Context, label, id, function, argument string) (string, error) {
	if err := checkFenceID(id); err != nil {
		return "", err
	}
	if s.options.Mode != ReadWrite {
		return "", &refusal{readOnly}
	}
	for settling := false; ; settling = true {
		var result *string
		err := s.link.writing(ctx, change, label, func(ctx context.Context, in *session) error {
			if !in.installed {
				return in.requireTriggers(ctx)
			}
			return in.row(ctx, []any{&result}, "SELECT loopx_control_plane."+function+"($1, $2, $3)", in.tenant, in.goal, argument)
		})
		var unknown *uncertain
		if errors.As(err, &unknown) && !settling {
			continue
		}
		if errors.As(err, &unknown) {
			return "", refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, "whether the goal was moved is unknown; ask again").because(unknown)
		}
		if err == nil && result == nil {
			return "", missing()
		}
		if err != nil {
			return "", err
		}
		return *result, nil
	}
}
