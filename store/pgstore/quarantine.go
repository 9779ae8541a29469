package pgstore

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

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
		return "", &refusal{Made: readOnly}
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
			return "", refuse(authority.ClassAmbiguous, authority.ReasonOutcomeUnknown, "whether the goal was moved is unknown; ask again").Because(unknown)
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

// quarantineShape is the form of the ids that SetAside gives: they stand in SQL text.
var quarantineShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`) })

func checkQuarantine(id string, mode Mode) error {
	switch {
	case id == "":
		return nil
	case mode != ReadOnly:
		return &refusal{Made: readOnly}
	case !quarantineShape().MatchString(id):
		return violation("a quarantine id is a UUID in lowercase").Field("quarantine_id")
	}
	return nil
}

// asideTables are the tables that have a copy in the quarantine, and its name.
var asideTables = map[string]string{
	"authority_heads": "heads", "authority_commits": "commits", "authority_events": "events",
	"authority_receipts": "receipts", "loopx_migrate_seals": "seals",
}

// turnTo makes the queries of the session read what was set aside. Each of them gives
// its tables an alias, as a subquery needs one.
func (s *session) turnTo(ctx context.Context, id string) error {
	if !s.installed {
		return s.requireTriggers(ctx)
	}
	var kept bool
	err := s.row(ctx, []any{&kept}, `SELECT q.restored_at IS NULL FROM loopx_control_plane.loopx_migrate_quarantine AS q
		WHERE q.quarantine_id = $1 AND q.tenant_id = $2 AND q.goal_id = $3`, id, s.tenant, s.goal)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !kept {
		return refuse(authority.ClassMissing, "", "nothing is set aside under that id").Field("loopx_migrate_quarantine.quarantine_id")
	}
	var names []string
	for table, copied := range asideTables {
		names = append(names, "loopx_control_plane."+table+" AS",
			"(SELECT * FROM loopx_control_plane.loopx_migrate_quarantine_"+copied+" WHERE quarantine_id = '"+id+"') AS")
	}
	s.tables = strings.NewReplacer(names...)
	return err
}

func (s *session) naming(text string) string {
	if s.tables == nil {
		return text
	}
	return s.tables.Replace(text)
}

// LastSeal is the newest seal and its cursor, zero values when there is none. Together
// with an audit, which proves that the seals chain up to it, it stands for every row.
func (s *Store) LastSeal(ctx context.Context) (authority.Cursor, authority.Digest, error) {
	var cursor int64
	var made []byte
	err := s.link.reading(ctx, snapshot, func(in *session) error {
		err := in.row(ctx, []any{&cursor, &made}, `SELECT s.cursor, s.seal FROM loopx_control_plane.loopx_migrate_seals AS s
			WHERE s.tenant_id = $1 AND s.goal_id = $2 ORDER BY s.cursor DESC LIMIT 1`, s.options.Tenant, s.options.GoalID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	var seal authority.Digest
	copy(seal[:], made)
	return authority.Cursor(cursor), seal, s.answer("audit", err, unreadable)
}
