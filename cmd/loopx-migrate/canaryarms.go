package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/canary"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
	"github.com/loopx-project/loopx-migrate/internal/pgserver"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// canaryBegin makes an arm ready.
type canaryBegin = func(context.Context) (canaryArm, error)

// canaryArms are the Goals to work on: the one that was named, if it is marked, else
// disposable copies of a real one.
func (e *env) canaryArms(stores string, g globals) ([]canaryBegin, error) {
	if g.goalID != "" || g.runtimeRoot != "" || g.registry != "" {
		return []canaryBegin{func(ctx context.Context) (canaryArm, error) { return e.namedArm(ctx, g) }}, nil
	}
	own := map[string]authority.Kind{"file": authority.KindFile, "sqlite": authority.KindSQLite, "postgres": authority.KindPostgreSQL}
	order := []string{"file", "sqlite", "postgres"}
	if stores != "all" {
		order = []string{stores}
	}
	var begins []canaryBegin
	for _, name := range order {
		kind, known := own[name]
		if !known {
			return nil, usage("flag_value", "--store is %q and must be file, sqlite, postgres or all", stores)
		}
		begins = append(begins, func(ctx context.Context) (canaryArm, error) { return e.disposableArm(ctx, kind, g) })
	}
	return begins, nil
}

// namedArm is the Goal that somebody named. Without its mark nothing is opened.
func (e *env) namedArm(ctx context.Context, g globals) (canaryArm, error) {
	flow, _, err := e.flow(g)
	if err != nil {
		return canaryArm{}, err
	}
	if err := flow.Permitted(ctx, cutover.Request{}); err != nil {
		return canaryArm{}, err
	}
	err = canary.CheckMark(flow.Place.Root(), g.goalID)
	if errors.Is(err, canary.ErrNotDisposable) {
		return canaryArm{}, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "goal_not_disposable",
			Sentence: fmt.Sprintf("%s; canary writes Todos, claims and completions, so it wants a file %s in the runtime root that holds the goal id and a line feed", err, canary.MarkName)}
	}
	if err != nil {
		return canaryArm{}, err
	}
	status, err := flow.Status(ctx)
	if err != nil {
		return canaryArm{}, err
	}
	verdict := status.Verdict
	if verdict.Blocked || verdict.Kind == authority.KindLegacy {
		return canaryArm{}, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "goal_not_promoted", Sentence: "no store takes writes for this goal: " + verdict.Row}
	}
	ref := ownRef(flow.Place, verdict.Kind)
	ref.Server, ref.Tenant, ref.Access = g.postgres, g.tenant, cutover.AccessWrite
	dir, err := workFolder()
	return canaryArm{kind: verdict.Kind, goal: g.goalID, ref: ref, dir: dir, close: scrap(dir, nil)}, err
}

// disposableArm promotes a copy of the demo's Goal to a kind of store. As a file journal
// it is promoted already.
func (e *env) disposableArm(ctx context.Context, kind authority.Kind, g globals) (arm canaryArm, err error) {
	arm = canaryArm{kind: kind, goal: demoGoal}
	if kind == authority.KindPostgreSQL {
		if arm.cluster, err = canaryServer(ctx); err != nil {
			return arm, err
		}
	}
	if arm.dir, err = unpackDemo(); err != nil {
		return arm, errors.Join(err, scrap(arm.dir, arm.cluster)())
	}
	arm.close = scrap(arm.dir, arm.cluster)
	own := globals{runtimeRoot: filepath.Join(arm.dir, "runtime"), goalID: demoGoal, actor: "canary", progress: "none", output: g.output, lockTimeout: g.lockTimeout}
	if own.who, err = e.principal(); err != nil { // who made the copy, and so owns it
		return arm, errors.Join(err, arm.close())
	}
	if err := canary.Mark(own.runtimeRoot, demoGoal); err != nil {
		return arm, errors.Join(err, arm.close())
	}
	arm.ref, err = e.promoteCopy(ctx, own, kind, arm.cluster)
	if err != nil {
		err = errors.Join(err, arm.close())
	}
	return arm, err
}

// promoteCopy takes the copy through the whole flow and returns its store.
func (e *env) promoteCopy(ctx context.Context, own globals, kind authority.Kind, cluster *pgserver.Cluster) (cutover.Ref, error) {
	flow, _, err := e.flow(own)
	if err != nil {
		return cutover.Ref{}, err
	}
	s := &story{e: e, flow: flow, began: e.now(), quiet: true, to: cutover.Target{Kind: kind}, toName: string(kind)}
	if cluster != nil {
		flow.Server = cluster.URL("postgres", pgserver.Admin)
		s.to.Path, s.to.Tenant = flow.Server, demoTenant
	}
	if kind == authority.KindFile {
		return s.targetRef(), nil
	}
	for _, chapter := range []func(context.Context) error{s.freeze, s.copyHistory, s.compare, s.promote} {
		if err := chapter(ctx); err != nil {
			return cutover.Ref{}, err
		}
	}
	return s.targetRef(), nil
}

// canaryServer starts a private server with LoopX's schema in it.
func canaryServer(ctx context.Context) (*pgserver.Cluster, error) {
	programs := pgserver.Programs()
	if programs == "" {
		return nil, &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: "server_programs_missing",
			Sentence: "no PostgreSQL server programs were found (Debian: apt-get install postgresql); try --store sqlite"}
	}
	cluster, err := pgserver.New(programs)
	if err != nil {
		return nil, err
	}
	_, err = pgstore.Install(ctx, pgstore.Server{DSN: cluster.URL("postgres", pgserver.Admin)}, pgstore.InstallOptions{Identity: pgstore.NewIdentity()})
	if err != nil {
		return nil, errors.Join(err, cluster.Remove())
	}
	return cluster, nil
}

// runAgents lets two processes work, and stops the private server in the middle.
func (e *env) runAgents(ctx context.Context, arm canaryArm, plan canary.Plan, ledger canary.Ledger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an agent that is left alone is killed with its context
	ended := make(chan error, 2)
	for name, habit := range map[string]canary.Habit{"canary-a": canary.Steady, "canary-b": canary.Sleepy} {
		text, err := json.Marshal(canaryErrand{Ref: arm.ref, Plan: plan, Name: name, Habit: habit, Ledger: ledger.Path})
		if err != nil {
			return err
		}
		go func() { ended <- e.runAgent(ctx, text) }()
	}
	if arm.cluster != nil {
		if err := outage(ctx, arm.cluster, ledger); err != nil {
			return err
		}
	}
	return errors.Join(<-ended, <-ended)
}

func (e *env) runAgent(ctx context.Context, errand []byte) error {
	agent := exec.CommandContext(ctx, e.self, "--output=json", "canary-agent")
	agent.Env = childEnvironment()
	var out, said bytes.Buffer
	agent.Stdin, agent.Stdout, agent.Stderr = bytes.NewReader(errand), &out, &said
	err := agent.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if agent.ProcessState != nil && agent.ProcessState.ExitCode() == int(cutover.KindInterrupted) {
		return context.Canceled // a Ctrl-C reaches the agents too, and one may end first
	}
	if err != nil {
		return fmt.Errorf("an agent ended: %w\n%s%s", err, &out, &said)
	}
	return nil
}

// outage stops the server once an effect was performed, and starts it again when an agent
// has met the silence.
func outage(ctx context.Context, cluster *pgserver.Cluster, ledger canary.Ledger) error {
	if err := awaitEntry(ctx, ledger, canary.Effect); err != nil {
		return err
	}
	cluster.Stop()
	return errors.Join(awaitEntry(ctx, ledger, canary.Unreachable), cluster.Start())
}

func awaitEntry(ctx context.Context, ledger canary.Ledger, kind canary.Kind) error {
	for {
		entries, err := ledger.Entries()
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.Kind == kind {
				return nil
			}
		}
		if err := lockfile.Pause(ctx, canaryPace/10); err != nil {
			return err
		}
	}
}

// workFolder is a folder for a ledger.
func workFolder() (string, error) { return os.MkdirTemp("", "loopx-migrate-canary-") }
