package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// Each kind of private thing, as a file may hold it, is found and not repeated.
func TestPrivateThingsAreFound(t *testing.T) {
	known := Private{Texts: []string{"Inspect the slewing ring <today>\n  & \"grease\" it"}, Paths: []string{"relative/but/private"}}
	for _, c := range []struct{ name, content, what string }{
		{"a.json", `{"where":"/home/ops/loopx"}`, "path"},
		{"a.json", `{"where":"file:/srv/loopx/authority"}`, "path"},
		{"a.json", `{"where":"\/srv\/loopx"}`, "path"},
		{"a.json", `{"where":"/tmp"}`, "path"},
		{"a.json", `{"where":"C:\\Users\\ops"}`, "path"},
		{"a.json", `{"where":"~/.loopx"}`, "path"},
		{"a.json", `{"detail":"open /a/b: no such file"}`, "path"},
		{"a.html", `<td>&#47;home&#47;ops</td>`, "path"},
		{"a.html", `<a href="https://example.org/x">x</a>`, "server"},
		{"a.json", `{"at":"postgres://ops@db/loopx"}`, "server"},
		{"a.json", `{"dsn":"host=db password=hunter2"}`, "credential"},
		{"a.json", `{"PASSWORD":"hunter2"}`, "credential"},
		{"a.txt", "Authorization: Bearer abcdef", "credential"},
		{"a.json", `{"k":"AKIAIOSFODNN7EXAMPLE"}`, "credential"},
		{"a.json", `{"x":"relative\/but\/private"}`, "host"},
		{"a.json", `{"x":"Inspect the slewing ring \u003ctoday\u003e\n & \"grease\" it"}`, "record"},
		{"a.html", `<p>Inspect the slewing ring &lt;today&gt; &amp; &#34;grease&#34; it</p>`, "record"},
	} {
		err := known.Scan(c.name, []byte(c.content))
		var found *PrivateError
		if !errors.As(err, &found) || !strings.Contains(found.What, c.what) || found.File != c.name {
			t.Errorf("%s: %v, want %s", c.content, err, c.what)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "slewing") || strings.Contains(err.Error(), "loopx/") {
			t.Errorf("the refusal repeats what is private: %v", err)
		}
	}
	for _, harmless := range []string{`{"a":"sha256:00","b":"file:0123","c":"2026-11-03T09:30:00Z","d":"linux/amd64","e":"1/2"}`,
		`<svg xmlns="http://www.w3.org/2000/svg"><path d="M 0 0 L 1 1"/></svg><br/><p>a / b</p>`} {
		for _, name := range []string{"a.json", "a.html"} {
			if err := known.Scan(name, []byte(harmless)); err != nil {
				t.Errorf("%s: %v", harmless, err)
			}
		}
	}
}

// Nothing is written when one file of many holds something private.
func TestNothingPrivateIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	files := []File{{"a.json", []byte("{}\n")}, {"b.json", []byte(`{"x":"a text of a person"}`)}}
	_, err := Write(dir, "g", began, files, Private{Texts: []string{"a text of a person"}})
	var found *PrivateError
	if !errors.As(err, &found) || found.File != "b.json" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}

func TestTextsOf(t *testing.T) {
	got := TextsOf(authority.Canonical(`{"goal_id":"harbour-crane","todos":[{"text":"Test the rails","evidence":"artifact://public/run-20","at":"2026-09-01T09:20:47Z","Note of one":1}]}`))
	if want := []string{"Test the rails", "artifact://public/run-20", "Note of one"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
