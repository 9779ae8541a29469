package archtest

// layer says which packages of this module a package may import, beside those in
// everyone. Names are relative to the module; "x/..." is x and all below it.
// The first layer that matches a package is its rule. Tests are free.
type layer struct{ pkg, mayImport, reason string }

const (
	// The floor: durable effects and locks, which know nothing of Goals.
	base = "internal/faultio internal/atomicfile internal/lockfile "
	// What a store speaks of.
	nouns = "authority authority/canonical "
	// What a Goal is made of before it has a store, and what its records mean.
	sources = "legacy coordination "
)

var layers = []layer{
	{"internal/faultio", "", "every change passes it, so it can stand on nothing"},
	{"internal/atomicfile", "internal/faultio", "files, without a notion of what is in them"},
	{"internal/lockfile", "internal/faultio internal/atomicfile", "locks, without a notion of what they guard"},
	{"internal/fixture", nouns + "internal/faultio internal/atomicfile", "builds test histories from the nouns and from no store's code"},
	{"internal/pgserver", "", "starts a server and knows no schema"},
	{"internal/pgtest", nouns + "internal/faultio internal/atomicfile internal/pgserver", "gives tests databases and knows no schema"},
	{"internal/...", "internal/faultio internal/atomicfile", "internal packages serve all layers and so belong to none"},

	{"authority/canonical", "", "a value's form depends on nothing"},
	{"authority", "authority/canonical", "the nouns; whatever they imported, all would import"},
	{"legacy", nouns + base + "coordination", "reads LoopX's files into the nouns"},
	{"coordination", nouns, "the meaning of records, without a place where they are kept"},
	{"manifest", nouns + base, "the record of a migration knows no stage: the stages write to it"},

	{"fence", nouns + base + sources + "manifest", stages},
	{"bootstrap", nouns + base + sources + "manifest", stages},
	{"parity", nouns + base + sources + "manifest", stages},
	{"export", nouns + base + sources + "manifest", stages},
	{"evidence", nouns + base + "manifest parity witness", "what is checked offline, without a store: it reads records and opens nothing"},
	{"evidence/...", nouns + base + "manifest parity evidence witness", "what people read of the evidence"},
	{"witness", "authority", "a verifier that shared code with the import could not contradict it: it takes the nouns and nothing else"},
	{"canary", nouns + base + "coordination", "agents and their judge; they are handed a store and know nothing of migrations"},
	{"cutover", nouns + base + sources + "manifest fence bootstrap parity export", "the flow puts the stages in order"},
	{"rehearsal", nouns + base + sources + "manifest fence bootstrap parity export cutover evidence witness", "runs the flow and changes nothing about it"},

	{"store/storetest", nouns + "internal/fixture", "one suite for all stores, so it may know none of them"},
	{"store/filestore", nouns + base, stores},
	{"store/sqlitestore", nouns + base, stores},
	{"store/pgstore", nouns + base, stores},
	{"store/legacystore", nouns + "legacy", "shows the legacy files as a history; what they mean, package legacy says alone"},
	{"store", nouns + base + "legacy export bootstrap cutover witness store/legacystore store/filestore store/sqlitestore store/pgstore", "opens what the flow asks for, through the interfaces the flow defines; only cmd imports it"},

	{"interop", "", "holds tests alone, and they drive the built program"},
	{"bench", "", "holds benchmarks alone, and they drive the built program"},
	{"testdata/fixtures", "", "embeds the Goals that demo copies: data, no code"},
	{"cmd/...", nouns + base + "internal/pgserver " + sources + "manifest fence bootstrap parity export cutover rehearsal evidence evidence/... witness canary store/... testdata/fixtures", "the top: it opens the stores and hands them down"},
}

const (
	stages = "what one stage learnt reaches the next through the manifest, so that it survives a crash in between"
	stores = "a store that knew another could make their answers agree"
)

// library is a module that only some packages may import, outside tests.
type library struct{ module, onlyIn, reason string }

// A library without a row here may not be imported: what is taken in has to be said.
var libraries = []library{
	{"modernc.org/sqlite", "store/sqlitestore", "one driver, one place that knows its pragmas and its locks"},
	{"github.com/jackc/pgx", "store/pgstore internal/pgserver internal/pgtest", "one driver, one place that knows its codes; pgtest starts the server it is tested with"},
	{"github.com/urfave/cli", "cmd/...", "flags end at the command line"},
	{"github.com/olekukonko/tablewriter", "cmd/...", "tables are for people; below cmd there are values"},
	{"github.com/sergi/go-diff", "parity", "a text difference explains a mismatch and decides nothing"},
	{"github.com/google/uuid", "...", "LoopX's names of temporary files, locks and migrations hold UUIDs"},
	{"github.com/moby/sys/user", "cutover", "who a user id is says /etc/passwd; os/user without cgo believes $USER"},
	{"golang.org/x/sys", "...", "flock, renameat2 and statfs, which package os does not offer"},
	{"pgregory.net/rapid", "store/storetest internal/fixture", "the suite that stores are tested with draws histories"},
	{"github.com/schollz/progressbar/v3", "cmd/...", "a bar is for somebody who watches a terminal"},
	{"golang.org/x/term", "cmd/...", "whether somebody looks at the terminal"},
	{"github.com/mattn/go-isatty", "cmd/...", "whether somebody looks at the terminal"},
	{"github.com/go-analyze/charts", "evidence/page", "a curve is drawn for people and decides nothing"},
	{"github.com/mattn/go-runewidth", "cmd/...", "how wide a cell of a table is"},
}

// effects are what changes durable state. They belong to internal/faultio, which
// alone can break them on purpose; elsewhere no test could ask what a crash leaves.
var effects = []string{
	"os.Rename", "os.WriteFile", "os.Create", "os.CreateTemp", "os.Remove", "os.RemoveAll",
	"os.Mkdir", "os.MkdirAll", "os.MkdirTemp", "os.Link", "os.Symlink", "os.Truncate",
	"os.Chmod", "os.Chown", "os.Lchown", "os.Chtimes", "os.CopyFS", "os.OpenRoot",
	"(*os.File).Sync", "(*os.File).Truncate", "(*os.File).Chmod",
	"syscall.Rename", "syscall.Unlink", "syscall.Fsync", "syscall.Ftruncate", "syscall.Open",
	"golang.org/x/sys/unix.Rename", "golang.org/x/sys/unix.Renameat", "golang.org/x/sys/unix.Renameat2",
	"golang.org/x/sys/unix.Unlink", "golang.org/x/sys/unix.Fsync", "golang.org/x/sys/unix.Fdatasync",
	"golang.org/x/sys/unix.Ftruncate", "golang.org/x/sys/unix.Open", "golang.org/x/sys/unix.Openat",
	// Only with flags that write; see writes in rules_test.go.
	"os.OpenFile",
}

// endings leave deferred unlocks undone, so a process ends in one place.
var endings = []string{
	"os.Exit", "syscall.Exit", "runtime.Goexit",
	"log.Fatal", "log.Fatalf", "log.Fatalln", "(*log.Logger).Fatal", "(*log.Logger).Fatalf", "(*log.Logger).Fatalln",
}

// exception allows a package a few of effects or endings. An empty file means any.
type exception struct{ pkg, file, functions, reason string }

var exceptions = []exception{
	{"internal/faultio", "", "os.* (*os.File).* golang.org/x/sys/unix.*", "the seam itself"},
	{"cmd/loopx-migrate", "main.go", "os.Exit", "the one exit: every deferred release has run by then"},
	{"cmd/loopx-migrate", "", "os.MkdirTemp os.RemoveAll", "disposable copies of demo and canary, which no crash can hurt"},
	{"cmd/loopx-migrate", "laddergrants.go", "os.Lchown", "gives a disposable copy to a second user"},
	{"rehearsal", "", "os.MkdirTemp os.RemoveAll", "disposable copies, which no crash can hurt"},
	{"store/sqlitestore", "snapshot.go", "os.MkdirTemp os.RemoveAll", "a private copy to read from: a crash leaves litter in the temporary folder, never state"},
	{"internal/fixture", "", "os.*", "lays out test Goals in a test's own folder"},
	{"internal/pgserver", "", "os.*", "lays out a disposable server in a temporary folder"},
	{"internal/pgtest", "", "os.*", "lays out a test server in a test's own folder"},
	{"store/storetest", "", "os.*", "spoils stores in a test's own folder"},
}

// Budgets, in lines or levels, of code that is read in one sitting.
const (
	maxFunction  = 60
	p95Function  = 45
	maxFile      = 500
	p95File      = 400
	maxTest      = 80
	maxNesting   = 3
	docException = "String Error Unwrap Is As Len Less Swap" // well-known methods that say nothing new
)
