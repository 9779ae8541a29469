package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store"
	"github.com/loopx-project/loopx-migrate/store/pgstore"
)

// Values of --principal.
const (
	principalUser = "os"
	principalRole = "role"
)

// Values of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// globals are the values of the global flags.
type globals struct {
	runtimeRoot, goalID, registry, stateFile, actor, loopx string
	postgres, tenant                                       string
	output, color, progress, principal                     string
	who                                                    string // the principal itself
	logLevel                                               slog.Level
	timeout, lockTimeout                                   time.Duration
}

var choices = map[string][]string{
	"output":    {outputTable, outputJSON},
	"principal": {principalUser, principalRole},
	"color":     {"auto", "always", "never"},
	"progress":  {"auto", "bar", "plain", "none"},
	"log-level": {"debug", "info", "warn", "error"},
}

// readGlobals checks everything that can be checked without looking at a file. The
// Goal id comes first: one that is not a path segment must not name any file.
func readGlobals(c *cli.Context) (globals, error) {
	g := globals{
		runtimeRoot: c.String("runtime-root"), goalID: c.String("goal-id"), registry: c.String("registry"),
		stateFile: c.String("state-file"), actor: c.String("actor"), loopx: c.String("loopx"),
		postgres: c.String("postgres"), tenant: c.String("tenant"),
		principal: c.String("principal"),
		output:    c.String("output"), color: c.String("color"), progress: c.String("progress"),
		timeout: c.Duration("timeout"), lockTimeout: c.Duration("lock-timeout"),
	}
	if g.goalID != "" {
		if _, err := authority.NewPlace("/", g.goalID); err != nil {
			return g, usage("goal_id_not_one_segment", "the goal id %q is not one path segment; nothing was looked at or changed", g.goalID)
		}
	}
	for flag, allowed := range choices {
		if value := c.String(flag); !slices.Contains(allowed, value) {
			return g, usage("flag_value", "--%s is %q and must be one of %s", flag, value, strings.Join(allowed, ", "))
		}
	}
	if g.timeout < 0 || g.lockTimeout <= 0 {
		return g, usage("flag_value", "--timeout must not be negative and --lock-timeout must be more than nothing")
	}
	if g.loopx != "" && g.registry == "" {
		return g, usage("registry_required", "--loopx needs --registry: LoopX finds the goal through it")
	}
	if g.principal == principalRole && g.postgres == "" {
		return g, usage("server_required", "--principal role is the role that a server authenticates: give --postgres")
	}
	if g.postgres != "" {
		if at, err := store.Parse(g.postgres); err != nil {
			return g, err
		} else if at.Server == "" {
			return g, usage("flag_value", "--postgres names a server: postgres://HOST/DATABASE")
		}
	}
	return g, g.logLevel.UnmarshalText([]byte(c.String("log-level")))
}

// home is where a Goal lives, as the flags and the registry say.
type home struct {
	place        authority.Place
	registration fence.Registration
}

// home resolves the Goal's place. With a registry, its common_runtime_root counts,
// and a --runtime-root that is another folder is refused: two roots would be two fences.
func (g globals) home() (home, error) {
	if g.goalID == "" {
		return home{}, usage("goal_id_required", "which goal? give --goal-id")
	}
	var h home
	var err error
	root := g.runtimeRoot
	if g.registry != "" {
		if h.registration, err = fence.ReadRegistry(g.registry, g.goalID); err != nil {
			return h, err
		}
		if root == "" {
			root = h.registration.RuntimeRoot
		}
	}
	if root == "" {
		return h, usage("runtime_root_required", "where does LoopX keep the goal? give --runtime-root or --registry")
	}
	real, err := realFolder(root)
	if g.runtimeRoot == "" && errors.Is(err, fs.ErrNotExist) {
		real, err = root, nil // LoopX makes its runtime root when it first needs it
	}
	if err != nil {
		return h, err
	}
	if named := h.registration.RuntimeRoot; named != "" && named != real {
		return h, &cutover.Refusal{Kind: cutover.KindRefused, Reason: "two_runtime_roots",
			Sentence: "--runtime-root is another folder than the registry's common_runtime_root; nothing was looked at or changed"}
	}
	if h.place, err = authority.NewPlace(real, g.goalID); err != nil {
		return h, err
	}
	return h, h.legacyState(g.stateFile)
}

// legacyState takes --state-file where the registry names none.
func (h *home) legacyState(path string) error {
	if path == "" {
		return nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return notReachable("state_file_unreachable", "--state-file cannot be read", err)
	}
	if named := h.registration.StateFile; named != "" && named != real {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "two_state_files",
			Sentence: "--state-file is another file than the registry names for this goal; nothing was looked at or changed"}
	}
	h.registration.StateFile = real
	return nil
}

// realFolder is the absolute path of a folder with every link followed, so that one
// folder has one fence and one set of locks whatever it is called.
func realFolder(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", notReachable("runtime_root_unreachable", "the runtime root cannot be read", err)
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "stat", Path: real, Err: errors.New("it is not a folder")}
	}
	if err != nil {
		return "", notReachable("runtime_root_unreachable", "the runtime root cannot be read", err)
	}
	return real, nil
}

func notReachable(reason, sentence string, err error) error {
	return &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: reason, Sentence: sentence + "; nothing was changed", Err: err}
}

// who is the principal: the operating-system user, or the role that the database server
// has authenticated this process as.
func (e *env) who(ctx context.Context, g globals) (string, error) {
	if g.principal != principalRole {
		return e.principal()
	}
	role, err := pgstore.SessionRole(ctx, pgstore.Server{DSN: g.postgres, LockWait: g.lockTimeout})
	return cutover.RolePrincipal(role), err
}

// flow is the migration of the Goal the flags name, for this principal.
func (e *env) flow(g globals) (*cutover.Flow, *meter, error) {
	h, err := g.home()
	if err != nil {
		return nil, nil, err
	}
	return e.flowAt(g, h)
}

// flowAt is the migration of a Goal that lives somewhere else than the flags say: a copy.
func (e *env) flowAt(g globals, h home) (*cutover.Flow, *meter, error) {
	watch := e.meter(g)
	return &cutover.Flow{
		Place: h.place, Folder: manifest.Open(h.place), Stores: e.stores, Probes: e.probes(g, h), Clock: e.now,
		Principal: g.who, Actor: g.actor, Watch: watch.watch, LockWait: g.lockTimeout, Registration: h.registration,
		Server: g.postgres, Program: programOf(environment()),
	}, watch, nil
}

// probes are the writers whose try has to fail: LoopX itself where it was named,
// else this program's model of one, in a process of its own.
func (e *env) probes(g globals, h home) cutover.Probes {
	return func(arm authority.Kind) fence.Prober {
		probe := fence.CommandProbe{By: "model", Arm: string(arm), Clock: e.now, Environment: childEnvironment(), Command: []string{
			e.self, "--output=json", "--runtime-root=" + h.place.Root(), "--goal-id=" + g.goalID, "--postgres=" + g.postgres, "probe-writer"}}
		if g.loopx != "" {
			probe.By = "loopx"
			probe.Command = []string{g.loopx, "--registry", g.registry, "--runtime-root", h.place.Root(), "--format", "json",
				"todo", "add", "--goal-id", g.goalID, "--role", "agent", "--text", "[P4] loopx-migrate negative probe",
				"--task-class", "advancement_task"}
		}
		return probe
	}
}
