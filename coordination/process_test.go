package coordination_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/coordination"
)

// childVariable holds what a process of the tests is to do.
const childVariable = "COORDINATION_CHILD"

// errand is the task of a process. Retries are how often an operation is asked again.
type errand struct {
	Place   address
	First   bool   // commit the operation; otherwise it was committed by another process
	Receipt string // what the other process got
	Retries int
	Once    bool // only one attempt, under a fault
}

func runChild() int {
	var e errand
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &e); err != nil {
		return complain(err)
	}
	if err := e.run(); err != nil {
		return complain(err)
	}
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (e errand) run() error {
	store, err := e.Place.open()
	if err != nil {
		return err
	}
	a := &coordination.Authority{Store: store, Clock: (&clock{epochAt}).now}
	request := claimRequest(e.Place.Goal, "op-first", 1, 0, 0)
	if e.Once {
		return e.attempt(a, request)
	}
	if e.First {
		got := a.Apply(context.Background(), request)
		if got.Outcome != coordination.Applied {
			return errors.New("first: " + ended(got))
		}
		e.Receipt = string(got.ReceiptText)
	}
	if err := e.retry(a, request); err != nil {
		return err
	}
	if !e.First {
		if got := a.Apply(context.Background(), claimRequest(e.Place.Goal, "op-second", 2, 1, 0)); got.Outcome != coordination.Applied {
			return errors.New("new operation: " + ended(got))
		}
	}
	fmt.Println(e.Receipt)
	if e.First {
		// Whoever reads the receipt kills this process; it does not end by itself.
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	}
	return err
}

func (e errand) retry(a *coordination.Authority, request coordination.Envelope) error {
	for i := range e.Retries {
		got := a.Apply(context.Background(), request)
		if got.Outcome != coordination.AlreadyApplied || string(got.ReceiptText) != e.Receipt {
			return fmt.Errorf("retry %d: %s", i, ended(got))
		}
	}
	changed := request
	changed.Command.TTLSeconds++
	got := a.Apply(context.Background(), changed)
	if got.Outcome != coordination.Conflict || got.Refusal.Reason != coordination.ReasonIdentity {
		return errors.New("changed content: " + ended(got))
	}
	return nil
}

func ended(got coordination.Result) string {
	return fmt.Sprintf("%s, %v, %v, %s", got.Outcome, got.Refusal, got.Err, got.ReceiptText)
}

// child is this test program on an errand, as a process of its own.
func child(t testing.TB, e errand, environment ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), environment...), childVariable+"="+string(mustJSON(t, e)))
	return command
}

// TestTwoProcesses: the first commits, asks a hundred times more, prints its receipt and is
// killed; the second gets that receipt a hundred times and goes on working.
func TestTwoProcesses(t *testing.T) {
	for _, kind := range []authority.Kind{authority.KindSQLite, authority.KindPostgreSQL, authority.KindFile} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, kind, projected, 2)
			first := child(t, errand{Place: r.place, First: true, Retries: 100})
			hold, err := first.StdinPipe()
			must(t, err)
			defer hold.Close()
			out, err := first.StdoutPipe()
			must(t, err)
			var said bytes.Buffer
			first.Stderr = &said
			must(t, first.Start())
			receipt, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("%v: %s", err, &said)
			}
			must(t, first.Process.Kill())
			if err := first.Wait(); err == nil {
				t.Fatal("it was not killed")
			}
			receipt = strings.TrimSpace(receipt)
			second := child(t, errand{Place: r.place, Receipt: receipt, Retries: 100})
			again, err := second.CombinedOutput()
			if err != nil || strings.TrimSpace(string(again)) != receipt {
				t.Fatalf("%v: %s", err, again)
			}
			head, err := r.Store.Load(t.Context())
			must(t, err)
			if head.Cursor != 3 {
				t.Errorf("%s transactions, want the seed and two claims", head.Cursor)
			}
		})
	}
}

// attempt asks once and prints how it ended.
func (e errand) attempt(a *coordination.Authority, request coordination.Envelope) error {
	got := a.Apply(context.Background(), request)
	answer := string(got.Outcome)
	if got.Refusal != nil {
		answer += "/" + string(got.Refusal.Reason)
	}
	fmt.Println(answer)
	return nil
}
