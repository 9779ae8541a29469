package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func (e *env) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash|zsh|fish",
		Description: "bash: source <(loopx-migrate completion bash)\nzsh:  source <(loopx-migrate completion zsh)\n" +
			"fish: loopx-migrate completion fish | source",
		Action: e.action(e.completion),
	}
}

// completion writes the names of this build's commands and flags into a script, so
// that completing never runs the program.
func (e *env) completion(_ context.Context, c *cli.Context, _ globals) (*answer, error) {
	script, err := e.script(c.App, c.Args().First())
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, raw: []byte(script)}
	a.fact("script", script)
	return a, nil
}

func (e *env) script(app *cli.App, shell string) (string, error) {
	switch shell {
	case "bash":
		return bashScript(app), nil
	case "zsh":
		return "autoload -U +X bashcompinit && bashcompinit\n" + bashScript(app), nil
	case "fish":
		return app.ToFishCompletion()
	}
	return "", usage("argument_invalid", "completion is for bash, zsh or fish, not %q", shell)
}

func bashScript(app *cli.App) string {
	var b strings.Builder
	b.WriteString("_loopx_migrate() {\n  local word=${COMP_WORDS[COMP_CWORD]} command= w\n")
	b.WriteString("  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $w in\n")
	var names []string
	for _, command := range app.Commands {
		if !command.Hidden {
			names = append(names, command.Name)
			fmt.Fprintf(&b, "      %s) command=$w;;\n", command.Name)
		}
	}
	b.WriteString("    esac\n  done\n  case $command in\n")
	globals := flagWords(app.Flags)
	fmt.Fprintf(&b, "    '') COMPREPLY=($(compgen -W %q -- \"$word\"));;\n", strings.Join(names, " ")+" "+globals)
	for _, command := range app.Commands {
		if command.Hidden {
			continue
		}
		words := []string{flagWords(command.Flags), globals}
		for _, sub := range command.Subcommands {
			words = append(words, sub.Name, flagWords(sub.Flags))
		}
		if command.Name == "completion" {
			words = append(words, "bash", "zsh", "fish")
		}
		fmt.Fprintf(&b, "    %s) COMPREPLY=($(compgen -W %q -- \"$word\"));;\n", command.Name, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	b.WriteString("  esac\n}\ncomplete -o default -F _loopx_migrate loopx-migrate\n")
	return b.String()
}

func flagWords(flags []cli.Flag) string {
	var words []string
	for _, f := range flags {
		if name := f.Names()[0]; name != "help" {
			words = append(words, "--"+name)
		}
	}
	return strings.Join(words, " ")
}
