package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Reasons that only a fence gives.
const (
	// ReasonFenceHeld: a fence of another id stands, or the fence is not whole.
	ReasonFenceHeld authority.Reason = "fence_held"
	// ReasonFenceID: the fence id is not one.
	ReasonFenceID authority.Reason = "invalid_fence_id"
)

// fencePrefix starts the name of every object of ours in LoopX's database.
const fencePrefix = "loopx_migrate_fence_"

// fenceMessage starts what a fenced write fails with; the fence id follows.
const fenceMessage = "loopx_migrate_fence:"

// fenced are the tables and operations that a fence stops. LoopX's commit inserts
// into the first two and writes the third.
var (
	fencedTables     = []string{"commits", "checkpoints", "head"}
	fencedOperations = []string{"INSERT", "UPDATE", "DELETE"}
	fenceTriggers    = len(fencedTables) * len(fencedOperations)
)

// fenceIDShape keeps the id usable inside an SQL literal and a message.
// Compiling it takes longer than a command that has nothing to do with fences may start.
var fenceIDShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._:-]{1,200}$`)
})

var raised = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`RAISE\(ABORT, '` + fenceMessage + `([A-Za-z0-9._:-]{1,200})'\)`)
})

func trigger(table, operation, fenceID string) string {
	return fmt.Sprintf("CREATE TRIGGER %s%s_%s BEFORE %s ON %s BEGIN SELECT RAISE(ABORT, '%s%s'); END",
		fencePrefix, table, strings.ToLower(operation), operation, table, fenceMessage, fenceID)
}

// EngageFence makes every write to the store's tables fail with the fence id, in the
// transaction that proves that the head still is the expected one: whoever committed
// before is in that head, whoever comes later fails. A fence of the same id is left as
// it is. Errors: ReasonFenceID; ClassConflict with ReasonFenceHeld for another fence,
// or ReasonRevisionMismatch; else those of Commit.
func (s *Store) EngageFence(ctx context.Context, fenceID string, expected authority.Applied) error {
	err := checkFenceID(fenceID)
	if err == nil {
		err = s.write(ctx, "engage fence", func(in *session) error { return in.engage(ctx, fenceID, expected) })
	}
	return s.answer("fence", err, unwritten)
}

func (s *session) engage(ctx context.Context, fenceID string, expected authority.Applied) error {
	e, err := s.ending()
	if err != nil {
		return err
	}
	if now := e.applied(s.identity); now != expected {
		return conflict(authority.ReasonRevisionMismatch, offer{}, now)
	}
	standing, err := s.fence()
	if err != nil || standing == fenceID {
		return err
	}
	if standing != "" {
		return fenceHeld("another fence stands: " + standing)
	}
	for _, table := range fencedTables {
		for _, operation := range fencedOperations {
			if _, err := s.conn.ExecContext(context.WithoutCancel(ctx), trigger(table, operation, fenceID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// LiftFence drops the triggers of that fence; afterwards sqlite_master holds what it
// held before. Without a fence there is nothing to do. Another fence is ReasonFenceHeld.
func (s *Store) LiftFence(ctx context.Context, fenceID string) error {
	err := checkFenceID(fenceID)
	if err == nil {
		err = s.write(ctx, "lift fence", func(in *session) error { return in.lift(ctx, fenceID) })
	}
	return s.answer("fence", err, unwritten)
}

func (s *session) lift(ctx context.Context, fenceID string) error {
	if err := s.admit(); err != nil {
		return err
	}
	standing, err := s.fence()
	if err != nil || standing == "" {
		return err
	}
	if standing != fenceID {
		return fenceHeld("another fence stands: " + standing)
	}
	for _, table := range fencedTables {
		for _, operation := range fencedOperations {
			drop := "DROP TRIGGER " + fencePrefix + table + "_" + strings.ToLower(operation)
			if _, err := s.conn.ExecContext(context.WithoutCancel(ctx), drop); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fence reads which fence stands in the database, if any. Triggers of ours that do not
// make one whole fence are ReasonFenceHeld. An absent database has none.
func (s *Store) Fence(ctx context.Context) (fenceID string, engaged bool, err error) {
	err = s.read(ctx, func(in *session) (err error) {
		if in == nil {
			return nil
		}
		fenceID, err = in.fence()
		return err
	})
	if err != nil {
		return "", false, s.answer("fence", err, unreadable)
	}
	return fenceID, fenceID != "", nil
}

// fence returns the id of the fence that stands whole, empty when none does.
func (s *session) fence() (fenceID string, err error) {
	rows, err := s.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB ?", fencePrefix+"*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := 0
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return "", err
		}
		match := raised().FindStringSubmatch(text)
		if match == nil || fenceID != "" && match[1] != fenceID {
			return "", fenceHeld("trigger " + name + " does not belong to one fence")
		}
		fenceID = match[1]
		found++
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if found != 0 && found != fenceTriggers {
		return "", fenceHeld(fmt.Sprintf("%d of %d triggers of fence %s stand", found, fenceTriggers, fenceID))
	}
	return fenceID, nil
}

func fenceHeld(detail string) *refusal {
	return refuse(authority.ClassConflict, ReasonFenceHeld, detail).Field("sqlite_master")
}

func checkFenceID(id string) error {
	if fenceIDShape().MatchString(id) {
		return nil
	}
	return refuse(authority.ClassFailed, ReasonFenceID,
		"a fence id is 1 to 200 letters, digits, dots, colons, dashes and underscores").Field("fence_id")
}
