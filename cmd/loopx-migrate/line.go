package main

import (
	"slices"
	"strings"
)

// line is a command line that can be pasted: the program as it was invoked, the
// global flags as they were given, and the arguments.
func (e *env) line(arguments []string) []string { return slices.Concat(e.program, e.given, arguments) }

// nextLine is the line that an answer says to run next.
func (e *env) nextLine(a *answer) []string {
	if a.alone {
		return slices.Concat(e.program, a.next)
	}
	return e.line(a.next)
}

// shellLine quotes words for a POSIX shell.
func shellLine(argv []string) string {
	quoted := make([]string, len(argv))
	for i, word := range argv {
		quoted[i] = shellWord(word)
	}
	return strings.Join(quoted, " ")
}

const shellPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

func shellWord(word string) string {
	if word != "" && strings.Trim(word, shellPlain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
