package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
	"github.com/loopx-project/loopx-migrate/internal/fixture"
)

// operationIDs commits under every id that LoopX takes of fixture canonical/ids.jsonl
// and offers every one that it refuses.
func operationIDs(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	type identifier struct {
		Value fixture.Text `json:"value"`
		Valid bool         `json:"valid_id"`
	}
	for _, id := range fixture.Lines[identifier](t, "canonical", "ids.jsonl") {
		r := row{operation: string(id.Value), events: `[]`, receipts: `[{"n":1}]`, projection: fmt.Sprintf(`{"n":%d}`, len(m.rows))}
		if id.Valid && !h.Differences.refusesID(r.operation) {
			m.commit(t, store, r)
			continue
		}
		before := m.current()
		_, err := store.Commit(context.Background(), m.request(r))
		if class, _ := authority.ReasonOf(err); class != authority.ClassFailed {
			t.Fatalf("commit under id %q: %v, want it refused", r.operation, err)
		}
		if before.Cursor > 0 {
			m.load(t, store)
		}
		if !id.Valid {
			_, err := store.Receipt(context.Background(), r.operation)
			refused(t, fmt.Sprintf("receipt of %q", r.operation), err, authority.ClassFailed, h.Differences.invalidReceiptID())
		}
	}
	m.reads(t, store)
	view := viewOf(t, store)
	m.operations(t, view)
	m.reads(t, view)
	if err := view.Close(); err != nil {
		t.Fatalf("close of a view: %v", err)
	}
}

func (d Differences) refusesID(id string) bool {
	lone := strings.Contains(id, "\xed\xa0") || strings.Contains(id, "\xed\xb0")
	return lone && (d.RefusesLoneSurrogateIDs || d.RefusesNULAndSurrogates) || d.RefusesNULAndSurrogates && strings.Contains(id, "\x00")
}

func (d Differences) refusesDocument(canonical string) bool {
	return d.RefusesNULAndSurrogates && (strings.Contains(canonical, `\u0000`) || strings.Contains(canonical, `\ud`))
}

// documents puts LoopX's canonical examples (keys like integers, odd numbers,
// twin keys, lone surrogates, deep nesting) into all three values of commits,
// fifty at a time, so that the delta formats have to change some of them.
func documents(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	type document struct{ Input, Canonical string }
	var inputs, wants []string
	for _, d := range fixture.Lines[document](t, "canonical", "documents.jsonl") {
		if d.Canonical == "" || h.Differences.refusesDocument(d.Canonical) {
			continue
		}
		inputs, wants = append(inputs, d.Input), append(wants, d.Canonical)
		if len(inputs) == 50 {
			m.commitDocuments(t, store, inputs, wants)
			inputs, wants = nil, nil
		}
	}
	m.commitDocuments(t, store, inputs, wants)
	m.reads(t, store)
	m.audit(t, store, nil)
}

func (m *model) commitDocuments(t testing.TB, store authority.Store, inputs, wants []string) {
	t.Helper()
	list := func(documents []string) string { return `[{"list":[` + strings.Join(documents, ",") + `]}]` }
	object := func(documents []string) string {
		var b strings.Builder
		for i, d := range documents {
			fmt.Fprintf(&b, `,"k%02d":%s`, i, d)
		}
		return "{" + b.String()[1:] + "}"
	}
	want := row{operation: fmt.Sprintf("documents-%d", len(m.rows)), events: list(wants), projection: object(wants), receipts: list(wants)}
	request := m.request(want)
	request.Events, request.Projection, request.Receipts = []byte(list(inputs)), []byte(object(inputs)), []byte(list(inputs))
	m.applied(t, store, request, want)
}

// nesting stays a hundred levels away from the limit on either side, since a
// store may wrap the value in levels of its own.
func nesting(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	m.commit(t, store, nested(canonical.MaxDepth-100))
	m.reads(t, store)
	m.audit(t, store, nil)
	for _, levels := range []int{canonical.MaxDepth + 100, 100_000} {
		request := m.request(nested(levels))
		for verb, err := range map[string]error{"check": store.CheckCommit(context.Background(), request), "commit": commitError(store, request)} {
			class, reason := authority.ReasonOf(err)
			if class != authority.ClassFailed || reason != authority.ReasonDepth && reason != authority.ReasonInvalidCommit {
				t.Fatalf("%s of %d levels: %v, want failed with %s or %s", verb, levels, err, authority.ReasonDepth, authority.ReasonInvalidCommit)
			}
		}
		m.reads(t, store)
	}
}

func nested(levels int) row {
	r := plain(fmt.Sprintf("op-nested-%d", levels))
	r.projection = `{"deep":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	return r
}

func commitError(store authority.Store, request authority.CommitRequest) error {
	_, err := store.Commit(context.Background(), request)
	return err
}

// capacity meets the declared limit to the byte, or passes 17 MiB where there is none.
func capacity(t testing.TB, h Harness) {
	store := open(t, h)
	m := &model{}
	limit := h.Differences.CapacityBytes
	if limit == 0 {
		m.commit(t, store, sized(17<<20))
		m.load(t, store)
		return
	}
	request := m.request(sized(limit + 1))
	refused(t, "check one byte over capacity", store.CheckCommit(context.Background(), request), authority.ClassFailed, authority.ReasonCapacity)
	refused(t, "one byte over capacity", commitError(store, request), authority.ClassFailed, authority.ReasonCapacity)
	m.load(t, store)
	m.commit(t, store, sized(limit))
	m.load(t, store)
}

// sized makes a first commit whose canonical request has n bytes.
func sized(n int) row {
	r := plain("op-large")
	frame := fixture.Canonical(map[string]any{"events": json.RawMessage(r.events), "expected_provider_revision": nil,
		"next_projection": map[string]string{"text": ""}, "operation_id": r.operation, "receipts": json.RawMessage(r.receipts)})
	r.projection = `{"text":"` + string(bytes.Repeat([]byte{'x'}, n-len(frame))) + `"}`
	return r
}
