package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/canary"
	"github.com/loopx-project/loopx-migrate/coordination"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
)

func (e *env) canaryCommand() *cli.Command {
	return &cli.Command{
		Name:  "canary",
		Usage: "TEST ONLY: two agents work on a disposable promoted Goal, and a judge reads what they did",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "store", Value: "all", Usage: "file, sqlite, postgres or all: on disposable copies of a Goal; without effect when --goal-id names one"},
			&cli.IntFlag{Name: "todos", Value: 3, Usage: "how many Todos they share"},
			&cli.BoolFlag{Name: "keep", Usage: "keep the folders and say where they are"},
		},
		Action: e.action(e.canary),
	}
}

// What the agents share, as long as nobody says otherwise: an effect takes a good third of
// a lease, so that whoever performs all of a Todo outlives the lease it began with.
const (
	canarySteps      = 3
	canaryTTLSeconds = 2
	canaryPace       = 750 * time.Millisecond
	canaryPatience   = 3 * time.Minute
)

// canaryArm is a Goal in a store, ready for its agents.
type canaryArm struct {
	kind authority.Kind
	goal string
	ref  cutover.Ref
	dir  string // of the ledger
	// cluster is the private server that is stopped in the middle, nil when there is none.
	cluster *pgserver.Cluster
	close   func() error
}

func (e *env) canary(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	if c.Int("todos") < 2 || c.Int("todos") > 64 {
		return nil, usage("flag_value", "--todos must be from 2 to 64")
	}
	prepare, err := e.canaryArms(c.String("store"), g)
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone}
	reports := map[string]any{}
	for _, begin := range prepare {
		arm, report, err := e.flyCanary(ctx, begin, c.Int("todos"), c.Bool("keep"))
		if err != nil {
			return a, err
		}
		reports[string(arm.kind)] = report
		a.show(canaryBlock(arm.kind, report))
		if report.Verdict != canary.Proved {
			err = &cutover.Refusal{Kind: cutover.KindDiffers, Reason: "canary_" + report.Verdict,
				Sentence: fmt.Sprintf("the agents' ledger and the %s store's history do not prove that the goal works", arm.kind)}
		}
		a.fact("arms", reports)
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// flyCanary prepares an arm, sets two agents on it and judges them.
func (e *env) flyCanary(ctx context.Context, begin func(context.Context) (canaryArm, error), todos int, keep bool) (arm canaryArm, report canary.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryPatience)
	defer cancel()
	arm, err = begin(ctx)
	if err != nil {
		return arm, report, err
	}
	defer func() {
		if keep {
			return
		}
		err = errors.Join(err, arm.close())
	}()
	plan, err := e.planCanary(ctx, arm, todos)
	if err != nil {
		return arm, report, err
	}
	ledger := canary.Ledger{Path: filepath.Join(arm.dir, "canary-"+plan.Run+".jsonl")}
	if err := e.runAgents(ctx, arm, plan, ledger); err != nil {
		return arm, report, err
	}
	entries, err := ledger.Entries()
	if err != nil {
		return arm, report, err
	}
	history, err := e.historyOf(ctx, arm.ref)
	if err != nil {
		return arm, report, err
	}
	report = canary.Judge(plan, entries, history, canary.Expect{Outage: arm.cluster != nil})
	if keep {
		_, err = fmt.Fprintln(e.stderr, "kept: "+arm.dir) // on the terminal only: facts carry no path
	}
	return arm, report, err
}

// planCanary creates the Todos that the agents share.
func (e *env) planCanary(ctx context.Context, arm canaryArm, todos int) (plan canary.Plan, err error) {
	run, err := e.mintOperation()
	if err != nil {
		return plan, err
	}
	run = "canary-" + strings.TrimPrefix(run, "op-")
	plan = canary.Plan{Run: run, Goal: arm.goal, Steps: canarySteps, Pace: canaryPace, TTLSeconds: canaryTTLSeconds}
	store, err := e.stores.Open(ctx, arm.ref)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	a := coordination.Authority{Store: store, Clock: e.now}
	for i := range todos {
		id := fmt.Sprintf("todo_%s_%d", strings.ReplaceAll(run, "-", "_"), i)
		result := a.Apply(ctx, coordination.Envelope{OperationID: fmt.Sprintf("%s-create-%d", run, i), GoalID: arm.goal,
			Actor: coordination.Actor{AgentID: "canary-keeper", DeviceID: "canary"},
			Command: coordination.Command{Type: coordination.CreateTodo, TodoID: id, Set: map[string]authority.Canonical{
				"role": []byte(`"agent"`), "text": []byte(`"sing"`)}}})
		if result.Refusal != nil {
			return plan, errors.Join(result.Refusal, result.Err)
		}
		plan.Todos = append(plan.Todos, id)
	}
	return plan, nil
}

// historyOf reads every transaction of a store.
func (e *env) historyOf(ctx context.Context, ref cutover.Ref) (all []authority.Transaction, err error) {
	store, err := e.stores.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	const page = 512
	for after, more := authority.Cursor(0), true; more; {
		p, err := store.Scan(ctx, after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Transactions...)
		after, more = p.Next, p.HasMore
	}
	return all, nil
}

func canaryBlock(kind authority.Kind, r canary.Report) block {
	b := pairs("CANARY on "+string(kind), "verdict", r.Verdict, "todos completed", strconv.Itoa(r.Todos), "effects", strconv.Itoa(r.Effects)+" under a lease in force",
		"operations", fmt.Sprintf("%d acknowledged, %d asked for again", r.Operations, r.Replays),
		"leases", fmt.Sprintf("%d renewed, %d taken over, %d times an agent stopped", r.Renewals, r.Reclaims, r.FencesLost),
		"races lost", strconv.Itoa(r.TakenFirst), "store not reached", strconv.Itoa(r.Unreachable)+" times")
	for _, fault := range r.Faults {
		b.rows = append(b.rows, row{cells: []string{"FAULT", fault}, failing: true})
	}
	for _, missing := range r.Missing {
		b.rows = append(b.rows, row{cells: []string{"NOT LIVED", missing}, failing: true})
	}
	return b
}

// canaryErrand is what an agent's process reads from its standard input: no password and
// no path stands on its command line.
type canaryErrand struct {
	Ref    cutover.Ref
	Plan   canary.Plan
	Name   string
	Habit  canary.Habit
	Ledger string
}

func (e *env) canaryAgentCommand() *cli.Command {
	return &cli.Command{Name: "canary-agent", Hidden: true, Usage: "FOR THE CANARY ONLY: one agent, whose work comes on standard input",
		Action: e.action(e.canaryAgent)}
}

func (e *env) canaryAgent(ctx context.Context, c *cli.Context, _ globals) (*answer, error) {
	var errand canaryErrand
	if err := json.NewDecoder(c.App.Reader).Decode(&errand); err != nil {
		return nil, usage("errand_unreadable", "the agent's work is not on standard input: %s", err)
	}
	store, err := e.stores.Open(ctx, errand.Ref)
	if err != nil {
		return nil, err
	}
	agent := canary.Agent{Plan: errand.Plan, Name: errand.Name, Habit: errand.Habit, Ledger: canary.Ledger{Path: errand.Ledger}, Wait: lockfile.Pause,
		Authority: &coordination.Authority{Store: store, Clock: e.now}}
	err = errors.Join(agent.Work(ctx), store.Close())
	if err != nil {
		return nil, err
	}
	return &answer{Status: statusDone}, nil
}

// scrap removes a disposable folder, and the server beside it when there is one.
func scrap(dir string, cluster *pgserver.Cluster) func() error {
	return func() error {
		err := faultio.RemoveAll(dir)
		if cluster != nil {
			err = errors.Join(err, cluster.Remove())
		}
		return err
	}
}
