package evidence

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Private is what must not stand in a bundle, beside what never may: texts of this Goal's
// records and paths of this host. The rules that need no list are applied with any.
type Private struct {
	Texts []string
	Paths []string
}

// PrivateError refuses a file that holds something private. It does not repeat it.
type PrivateError struct {
	File string
	What string
	// Digest is the start of the SHA-256 of what was found, so that two finds can be told apart.
	Digest string
}

// Error names the file and the kind of what was found.
func (e *PrivateError) Error() string {
	return fmt.Sprintf("%s holds %s (sha256 %s...): evidence is shared, so it was not written", e.File, e.What, e.Digest)
}

// privateRules need no knowledge of the host.
var privateRules = sync.OnceValue(func() []privateRule {
	rule := func(what, pattern string) privateRule { return privateRule{what, regexp.MustCompile(pattern)} }
	return []privateRule{
		rule("an absolute path", `(?:^|[\s"'=(:,;>\x60])(?:/[A-Za-z0-9._@+-]+){2,}`),
		rule("an absolute path", `(?:^|[\s"'=(:,;>\x60])/(?:home|root|tmp|var|srv|etc|opt|usr|mnt|media|private|proc|run|Users|Volumes|work|data)\b`),
		rule("an absolute path", `(?:^|[\s"'=(,;>\x60])(?:[A-Za-z]:\\|~/|\\\\[A-Za-z0-9])`),
		rule("the address of a server", `[a-z][a-z0-9+]*://[^\s"'<]`),
		rule("a credential", `(?i)(?:password|passwd|pgpass|secret|api[_-]?key|access[_-]?token|bearer)["']?\s*[=: ]\s*["']?[^\s"',}<]`),
		rule("a credential", `-----BEGIN [A-Z ]+-----|\b(?:ghp|gho|github_pat|xox[bp]|sk-[A-Za-z0-9]|AKIA)[A-Za-z0-9_-]{8,}`),
	}
})

type privateRule struct {
	what    string
	pattern *regexp.Regexp
}

// svgNamespace is the one address that may stand in a page: the name of a language.
const svgNamespace = `xmlns="http://www.w3.org/2000/svg"`

// shortestText is how long a record's text must be to be looked for: shorter ones are
// words that may stand anywhere.
const shortestText = 8

// Scan searches a file, as it is written and as a reader decodes it. No flag of any
// command leaves it out.
func (p Private) Scan(name string, content []byte) error {
	for _, form := range forms(name, content) {
		form = strings.ReplaceAll(form, svgNamespace, "")
		for _, rule := range privateRules() {
			if found := rule.pattern.FindString(form); found != "" {
				return private(name, rule.what, found)
			}
		}
		if err := p.known(name, form); err != nil {
			return err
		}
	}
	return nil
}

// known looks for the texts and paths that were given.
func (p Private) known(name, form string) error {
	for _, path := range p.Paths {
		if len(path) > 1 && strings.Contains(form, path) {
			return private(name, "a path of this host", path)
		}
	}
	squeezed := squeeze(form)
	for _, text := range p.Texts {
		if text = squeeze(text); len(text) >= shortestText && strings.Contains(squeezed, text) {
			return private(name, "text of a record", text)
		}
	}
	return nil
}

func private(name, what, found string) error {
	return &PrivateError{name, what, authority.DigestOf([]byte(found)).String()[:8]}
}

// forms are the file as it stands and as its reader sees it.
func forms(name string, content []byte) []string {
	all := []string{string(content)}
	switch {
	case strings.HasSuffix(name, ".html"):
		all = append(all, html.UnescapeString(tags().ReplaceAllString(string(content), "\n")))
	case strings.HasSuffix(name, ".json"):
		all = append(all, decoded(content))
	}
	return all
}

var tags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<[^>]*>`) })

// decoded are all strings of a JSON document, a line each.
func decoded(content []byte) string {
	var out strings.Builder
	dec := json.NewDecoder(strings.NewReader(string(content)))
	for {
		token, err := dec.Token()
		if err != nil {
			return out.String()
		}
		if s, ok := token.(string); ok {
			out.WriteString(s + "\n")
		}
	}
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// TextsOf are the strings of a Goal's state that a person or an agent may have written:
// all that are no plain word, whatever the field.
func TextsOf(projection authority.Canonical) []string {
	var texts []string
	dec := json.NewDecoder(strings.NewReader(string(projection)))
	for {
		token, err := dec.Token()
		if err != nil {
			return texts
		}
		if s, ok := token.(string); ok && !plainWord().MatchString(s) {
			texts = append(texts, s)
		}
	}
}

// plainWord is an id, a digest, a time or a code: what a bundle is made of.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:+-]*$`) })
