package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// source is a history in memory. It proves nothing: what is written from it is
// compared with LoopX's own bytes.
type source struct {
	goal     string
	kind     authority.Kind
	identity authority.Identity
	rows     []authority.Row
	loaded   func() // runs after Load has answered
}

func (s *source) Kind() authority.Kind { return s.kind }
func (s *source) GoalID() string       { return s.goal }

func (s *source) Identity(context.Context) (authority.Identity, error) { return s.identity, nil }

func (s *source) Load(context.Context) (authority.Head, error) {
	if len(s.rows) == 0 {
		return authority.Head{}, &authority.Error{Verb: "load", Kind: s.kind, Goal: s.goal, Class: authority.ClassMissing}
	}
	last := s.rows[len(s.rows)-1]
	if s.loaded != nil {
		s.loaded()
	}
	return authority.Head{Cursor: last.Cursor, Revision: last.Revision, Projection: last.Projection}, nil
}

// Audit shows each row in one buffer that is overwritten afterwards, as the contract allows.
func (s *source) Audit(ctx context.Context, _ *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	hash := authority.NewLogicalHash()
	var lineage authority.Lineage
	for _, row := range s.rows {
		if ctx.Err() != nil {
			return lineage, ctx.Err()
		}
		shown := row
		shown.Projection, shown.Events = slices.Clone(row.Projection), slices.Clone(row.Events)
		if err := visit(shown); err != nil {
			return lineage, err
		}
		clear(shown.Projection)
		clear(shown.Events)
		hash.Add(row)
		lineage.End = authority.Bookmark{Cursor: row.Cursor, Revision: row.Revision, StateDigest: row.StateDigest, Logical: hash.State()}
	}
	lineage.Logical = hash.Digest()
	return lineage, nil
}

// scanned is a fixture's rows.jsonl: rows as LoopX's own scan gave them.
func scanned(t testing.TB, name, goal string, kind authority.Kind, identity authority.Identity) *source {
	t.Helper()
	type answer struct {
		Cursor     string          `json:"cursor"`
		Revision   fixture.Text    `json:"provider_revision"`
		Operation  fixture.Text    `json:"operation_id"`
		Events     json.RawMessage `json:"events"`
		Receipts   json.RawMessage `json:"receipts"`
		Projection json.RawMessage `json:"projection"`
	}
	s := &source{goal: goal, kind: kind, identity: identity}
	for i, a := range fixture.Lines[answer](t, name, "rows.jsonl") {
		s.rows = append(s.rows, rowOf(authority.Transaction{
			Cursor: authority.Cursor(i + 1), Revision: authority.Revision(a.Revision), OperationID: string(a.Operation),
			Events: authority.Canonical(a.Events), Receipts: authority.Canonical(a.Receipts), Projection: authority.Canonical(a.Projection),
		}))
	}
	return s
}

func rowOf(t authority.Transaction) authority.Row {
	return authority.Row{Transaction: t, StateDigest: authority.DigestOf(t.Projection)}
}

// replayed reads a file journal in format v1 a second, naive way: encoding/json,
// maps and slices.
func replayed(t testing.TB, elem ...string) *source {
	t.Helper()
	var document struct {
		Goal      string             `json:"goal_id"`
		Identity  authority.Identity `json:"store_identity"`
		Committed []struct {
			Revision  authority.Revision `json:"provider_revision"`
			Operation string             `json:"operation_id"`
			Events    json.RawMessage    `json:"events"`
			Receipts  json.RawMessage    `json:"receipts"`
			State     struct {
				Projection map[string]any `json:"projection"`
				Delta      struct {
					Operations []operation `json:"operations"`
				} `json:"delta"`
			} `json:"state"`
		} `json:"committed"`
	}
	decoder := json.NewDecoder(bytes.NewReader(fixture.Read(t, elem...)))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	s := &source{goal: document.Goal, kind: authority.KindFile, identity: document.Identity}
	state := map[string]any{}
	for i, entry := range document.Committed {
		if entry.State.Projection != nil {
			state = entry.State.Projection
		}
		for _, o := range entry.State.Delta.Operations {
			o.apply(state)
		}
		s.rows = append(s.rows, rowOf(authority.Transaction{
			Cursor: authority.Cursor(i + 1), Revision: entry.Revision, OperationID: entry.Operation,
			Events: authority.Canonical(entry.Events), Receipts: authority.Canonical(entry.Receipts),
			Projection: fixture.Canonical(state),
		}))
	}
	return s
}

type operation struct {
	Op            string
	Path          []string
	Value         any
	Index, Remove int
	Insert        []any
}

func (o operation) apply(state map[string]any) {
	for _, key := range o.Path[:len(o.Path)-1] {
		state = state[key].(map[string]any)
	}
	last := o.Path[len(o.Path)-1]
	switch o.Op {
	case "set":
		state[last] = o.Value
	case "remove":
		delete(state, last)
	case "splice":
		state[last] = slices.Replace(slices.Clone(state[last].([]any)), o.Index, o.Index+o.Remove, o.Insert...)
	}
}

// tiny is the history of four transactions behind the fixture archive-tampered.
func tiny(t testing.TB) *source {
	return scanned(t, "archive-tampered", "goal-tiny", authority.KindFile, "file:964bd2d8438e4553b74f3bf6cffd2513")
}

func trapsSQLite(t testing.TB) *source {
	return scanned(t, "archive-traps-sqlite", "goal-traps-～😀", authority.KindSQLite, "sqlite:6c8276c4e5dc4980aca7ab8ed17fcd12")
}
