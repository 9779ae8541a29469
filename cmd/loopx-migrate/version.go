package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/manifest"
	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

func (e *env) versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Usage: "build facts and supported formats", Action: e.action(e.version)}
}

// version answers what this build is. A build whose SQLite LoopX would not admit is
// refused by its own test and says so here.
func (e *env) version(_ context.Context, _ *cli.Context, _ globals) (*answer, error) {
	linked := sqlitestore.Version()
	version, revision := built()
	admitted := sqlitestore.AdmittedByLoopX(linked.Version)
	a := &answer{Status: statusDone}
	a.fact("version", version)
	a.fact("vcs_revision", revision)
	a.fact("go", runtime.Version())
	a.fact("platform", runtime.GOOS+"/"+runtime.GOARCH)
	a.fact("sqlite", map[string]any{"version": linked.Version, "source_id": linked.SourceID, "admitted_by_loopx": admitted})
	a.fact("formats", map[string]any{
		"reads":    []authority.Format{authority.FormatFileV0, authority.FormatFileV1, authority.FormatSQLiteV2},
		"writes":   []authority.Format{authority.FormatFileV0, authority.FormatFileV1, authority.FormatSQLiteV2},
		"migrates": []string{"file to sqlite"}, "manifest": manifest.SchemaVersion, "plan": cutover.PlanSchema, "result": resultSchema,
	})
	admittance := "LoopX admits it"
	if !admitted {
		admittance = "LoopX does not admit it"
	}
	a.show(pairs("loopx-migrate", "version", version, "revision", revision, "go", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH,
		"sqlite", linked.Version+", "+admittance, "source id", linked.SourceID,
		"reads", "file-v0, file-v1, sqlite-v2", "migrates", "file to sqlite"))
	return a, nil
}

// built is the module version and the revision it was built from, as far as known.
func built() (version, revision string) {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "unknown", ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision
}
