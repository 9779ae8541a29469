package legacy

import (
	"regexp"
	"sync"
)

// expression is a regular expression that is compiled when it is first asked. There are
// two dozen of them, bounded repetitions most: compiled at the start of the process they
// would cost every command more than the rest of its start.
type expression struct{ get func() *regexp.Regexp }

func pattern(text string) *expression {
	return &expression{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// MatchString is that of regexp.Regexp.
func (e *expression) MatchString(s string) bool { return e.get().MatchString(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (e *expression) FindStringSubmatch(s string) []string { return e.get().FindStringSubmatch(s) }

// ReplaceAllString is that of regexp.Regexp.
func (e *expression) ReplaceAllString(s, with string) string {
	return e.get().ReplaceAllString(s, with)
}

// FindString is that of regexp.Regexp.
func (e *expression) FindString(s string) string { return e.get().FindString(s) }
