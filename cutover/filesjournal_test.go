package cutover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
)

// A Goal goes from its files into a journal and back, twice, with forty changes each
// time. The journal stands at LoopX's place in format v1, a selector names it, and the
// second one begins with every row of the first.
func TestFilesToFileAndBack(t *testing.T) {
	r := newFilesRig(t)
	var operations []string
	for round := range 2 {
		request := freezeFiles()
		request.To = cutover.Target{Kind: authority.KindFile}
		r.do(request)
		for _, command := range []string{cutover.CommandImport, cutover.CommandCompare, cutover.CommandPromote} {
			r.do(cutover.Request{Command: command})
		}
		r.isJournal()
		s := r.open(authority.KindFile, cutover.AccessWrite)
		r.mutate(s, fmt.Sprintf("round%d", round), 40)
		last, err := s.Load(context.Background())
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		before := operations
		operations = r.operations(authority.KindFile)
		if len(operations) != len(before)+41 || fmt.Sprint(operations[:len(before)]) != fmt.Sprint(before) {
			t.Fatalf("%d operations after %d", len(operations), len(before))
		}
		r.provesWell()
		r.do(backToFiles())
		r.authority(authority.KindLegacy)
		r.readsAs(last.Projection)
		r.provesWell()
		for _, path := range []string{r.flow.Place.WriterFence(), r.flow.Place.Selector(), r.flow.Place.Journal()} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is there: %v", r.flow.Place.Rel(path), err)
			}
		}
	}
}

// A cutover into a journal that fails behind its fence is undone altogether, and none that
// was undone is in the way of the next; an abort leaves nothing at the journal's place.
func TestFilesToFileUndone(t *testing.T) {
	r := newFilesRig(t)
	request := freezeFiles()
	request.Command, request.MaxStall, request.To = cutover.CommandCutover, time.Minute, cutover.Target{Kind: authority.KindFile}
	good := r.flow.Probes
	for range 2 {
		r.flow.Probes = broken
		if _, err := r.try(request); err == nil {
			t.Fatal("a cutover without a probe went through")
		}
		r.authority(authority.KindLegacy)
		r.edit(r.state(), "[P3] Wait for the", "[P3] Wait for the the")
	}
	r.flow.Probes = good
	freeze := freezeFiles()
	freeze.To = request.To
	r.do(freeze)
	r.do(cutover.Request{Command: cutover.CommandImport})
	r.do(cutover.Request{Command: cutover.CommandCompare})
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.authority(authority.KindLegacy)
	for _, path := range []string{r.flow.Place.WriterFence(), r.flow.Place.Selector(), r.flow.Place.Journal()} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", r.flow.Place.Rel(path), err)
		}
	}
	r.do(request)
	r.isJournal()
	head, err := r.open(authority.KindFile, cutover.AccessUntouched).Load(context.Background())
	if err != nil || head.Cursor != 1 || !bytes.Contains(head.Projection, []byte("Wait for the the the")) {
		t.Errorf("cursor %s, %v, head %s", head.Cursor, err, head.Projection)
	}
}

// A commit on the journal behind the fence of a rollback to the files, by a writer that
// heeds no lock, is seen when the journal was set aside: nothing is published, and abort gives the Goal back to the journal
// with that commit in it, the files as they were.
func TestFilesAndAWriteOnTheJournalBehindTheFence(t *testing.T) {
	r := newFilesRig(t)
	request := freezeFiles()
	request.To = cutover.Target{Kind: authority.KindFile}
	r.do(request)
	for _, command := range []string{cutover.CommandImport, cutover.CommandCompare, cutover.CommandPromote} {
		r.do(cutover.Request{Command: command})
	}
	r.mutate(r.open(authority.KindFile, cutover.AccessWrite), "a", 2)
	before := r.read(r.state())
	good := r.flow.Stores
	written := r.withRogue()
	r.flow.Stores = meddling{good, r.flow.Place.Journal(), func() { put(t, r.flow.Place.Journal(), written) }, new(bool)}
	_, err := r.try(backToFiles())
	r.flow.Stores = good
	if got := cutover.AsRefusal(err); got.Kind != cutover.KindUnproved || got.Reason != "target_moved_while_frozen" {
		t.Fatalf("a write behind the fence: %v", err)
	}
	r.do(cutover.Request{Command: cutover.CommandAbort})
	r.isJournal()
	if got := r.operations(authority.KindFile); len(got) != 4 || got[3] != "rogue-1" {
		t.Errorf("the journal holds %v", got)
	}
	if !bytes.Equal(r.read(r.state()), before) {
		t.Error("the state file is not what it was")
	}
	r.do(backToFiles())
	r.authority(authority.KindLegacy)
}

// withRogue is the journal as it stands with one commit more.
func (r *filesRig) withRogue() []byte {
	r.Helper()
	was := r.read(r.flow.Place.Journal())
	r.stranger(r.flow.Place.Journal())
	defer put(r.T, r.flow.Place.Journal(), was)
	return r.read(r.flow.Place.Journal())
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// operations are the operations of the store of that kind, in cursor order.
func (r *filesRig) operations(kind authority.Kind) []string {
	r.Helper()
	s := r.open(kind, cutover.AccessUntouched)
	view, err := s.View(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	all, err := view.Operations(context.Background())
	if err = errors.Join(err, view.Close(), s.Close()); err != nil {
		r.Fatal(err)
	}
	return all
}
