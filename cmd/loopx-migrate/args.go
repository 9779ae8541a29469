package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// variable is the environment variable of a global flag.
func variable(flag string) string {
	return "LOOPX_MIGRATE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// childEnvironment is this process's environment without the variables of global flags. A
// child works on what its command line names, which may be a copy: the registry of this
// process's Goal would lead it back or make it refuse.
func childEnvironment() []string {
	given := map[string]bool{}
	for _, f := range globalFlags() {
		for _, name := range f.(cli.DocGenerationFlag).GetEnvVars() {
			given[name] = true
		}
	}
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return given[name]
	})
}

// line is a command line taken apart.
type line struct {
	globals, flags, args []string
	commands             []*cli.Command // command and subcommand
	seen                 map[string]bool
	help, ended          bool
}

// arrange brings a command line into the only order urfave/cli reads in full: global
// flags, command, its flags, arguments. The library stops at the first argument and
// would silently drop every flag after it (`promote my-goal --execute`). Whatever does
// not belong is refused by name, before the command runs. It returns also the global
// flags as typed.
func arrange(app *cli.App, args []string) (arranged, given []string, err error) {
	l := line{seen: map[string]bool{}}
	arity := arities(app)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if l.ended || len(arg) < 2 || arg[0] != '-' {
			if err := l.word(app, arg); err != nil {
				return nil, l.globals, err
			}
			continue
		}
		used, err := l.flag(app, arity, arg, args[i+1:])
		if err != nil {
			return nil, l.globals, err
		}
		i += used
	}
	if err := l.belongs(); err != nil {
		return nil, l.globals, err
	}
	return l.arranged(), l.globals, nil
}

// arities says of every flag of any command whether it takes a value.
func arities(app *cli.App) map[string]bool {
	takes := map[string]bool{"help": false, "h": false}
	add := func(flags []cli.Flag) {
		for _, f := range flags {
			for _, name := range f.Names() {
				takes[name] = f.(cli.DocGenerationFlag).TakesValue()
			}
		}
	}
	add(app.Flags)
	for _, c := range app.Commands {
		add(c.Flags)
		for _, sub := range c.Subcommands {
			add(sub.Flags)
		}
	}
	return takes
}

// word takes a command's name or an argument.
func (l *line) word(app *cli.App, word string) error {
	switch {
	case word == "--":
	case len(l.commands) == 0:
		if word == "help" {
			l.help = true
			return nil
		}
		command := app.Command(word)
		if command == nil {
			return usage("unknown_command", "there is no command %q; see %s --help", word, app.Name)
		}
		l.commands = append(l.commands, command)
	case len(l.commands) == 1 && len(l.commands[0].Subcommands) > 0:
		for _, sub := range l.commands[0].Subcommands {
			if sub.Name == word {
				l.commands = append(l.commands, sub)
				return nil
			}
		}
		return usage("unknown_command", "%s has no command %q", l.commands[0].Name, word)
	default:
		l.args = append(l.args, word)
	}
	return nil
}

// flag takes one flag and says how many of the following words were its value.
func (l *line) flag(app *cli.App, arity map[string]bool, arg string, rest []string) (used int, err error) {
	if arg == "--" {
		l.ended = true
		return 0, nil
	}
	name, value, attached := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	takes, known := arity[name]
	switch {
	case !known:
		return 0, usage("unknown_flag", "there is no flag --%s; nothing was done", name)
	case name == "help" || name == "h":
		l.help = true
		return 0, nil
	case takes && !attached && (len(rest) == 0 || strings.HasPrefix(rest[0], "--")):
		return 0, usage("flag_without_value", "--%s needs a value (a value that begins with -- is written --%s=VALUE)", name, name)
	case l.seen[name] && !repeatable[name]:
		return 0, usage("flag_twice", "--%s stands twice; nothing was done", name)
	case takes && !attached:
		value, used = rest[0], 1
	}
	l.seen[name] = true
	word := "--" + name
	if takes || attached {
		word += "=" + value
	}
	if isGlobal(app, name) {
		l.globals = append(l.globals, word)
	} else {
		l.flags = append(l.flags, word)
	}
	return used, nil
}

// repeatable flags may stand more than once.
var repeatable = map[string]bool{"accept": true, "require-event-kind": true, "only": true}

func isGlobal(app *cli.App, name string) bool {
	return slices.ContainsFunc(app.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// belongs refuses flags and arguments that the command does not have.
func (l *line) belongs() error {
	if len(l.commands) == 0 || l.help {
		return nil
	}
	command := l.commands[len(l.commands)-1]
	for _, word := range l.flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !slices.ContainsFunc(command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
			return usage("unknown_flag", "%s has no flag --%s; nothing was done", command.Name, name)
		}
	}
	if len(command.Subcommands) > 0 {
		return usage("command_required", "%s needs one of its commands: %s", command.Name, command.ArgsUsage)
	}
	wanted := len(strings.Fields(command.ArgsUsage))
	if len(l.args) > wanted {
		return usage("stray_argument", "%s takes no argument %q; nothing was done", command.Name, l.args[wanted])
	}
	if len(l.args) < wanted {
		return usage("argument_missing", "%s needs %s", command.Name, command.ArgsUsage)
	}
	return nil
}

func (l *line) arranged() []string {
	arranged := slices.Clone(l.globals)
	for _, command := range l.commands {
		arranged = append(arranged, command.Name)
	}
	if l.help {
		return append(arranged, "--help")
	}
	arranged = append(arranged, l.flags...)
	if len(l.args) > 0 {
		arranged = append(append(arranged, "--"), l.args...)
	}
	return arranged
}

// outputMode finds --output before the line is parsed, so that also a usage error
// comes in the form that was asked for.
func outputMode(args []string) string {
	mode := os.Getenv(variable("output"))
	for i, arg := range args {
		name, value, attached := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "output" || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !attached && i+1 < len(args) {
			value = args[i+1]
		}
		mode = value
	}
	if mode == outputJSON {
		return outputJSON
	}
	return outputTable
}
