package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopx-project/loopx-migrate/evidence"
)

// chromium is the browser's program. Where there is none the test is skipped, unless
// LOOPX_MIGRATE_REQUIRE_CHROMIUM=1 says that it must run.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("LOOPX_MIGRATE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "no Chromium is installed: the page was not opened in a browser"
	if os.Getenv("LOOPX_MIGRATE_REQUIRE_CHROMIUM") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// measured is what the browser says of a page.
type measured struct {
	Width      int      `json:"width"`      // of the window
	Scroll     int      `json:"scroll"`     // of the document
	Overflow   []string `json:"overflow"`   // elements that reach beyond the window
	Resources  int      `json:"-"`          // what the page asked for beside itself
	Landmarks  []string `json:"landmarks"`  // header, main, footer
	Captions   int      `json:"captions"`   // tables without a caption
	Unlabelled []string `json:"unlabelled"` // drawings and sections without a name
	Headings   []int    `json:"headings"`   // levels in order
	Contrast   []string `json:"contrast"`   // texts below 4.5 to 1
	Texts      int      `json:"texts"`      // texts whose contrast was measured
	Scheme     string   `json:"scheme"`
}

// probe measures the page in a frame of a given width.
const probe = `<!doctype html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;width:%[1]dpx;height:2000px;display:block}</style>
<iframe src="%[2]s"></iframe><pre id="out"></pre><script>
document.querySelector('iframe').addEventListener('load', e => {
 const w = e.target.contentWindow, d = w.document, root = d.documentElement, out = {};
 const all = [...d.body.querySelectorAll('*')];
 out.width = root.clientWidth; out.scroll = root.scrollWidth;
 out.overflow = all.filter(x => { const r = x.getBoundingClientRect(); return r.width && r.right > out.width + 1 && r.left >= 0; }).map(x => x.tagName + '.' + x.className).slice(0, 5);
 out.landmarks = ['header', 'main', 'footer'].filter(x => d.querySelectorAll('body > ' + x).length === 1);
 out.captions = [...d.querySelectorAll('table')].filter(x => !x.caption || !x.caption.textContent.trim()).length;
 out.unlabelled = [...d.querySelectorAll('[role=img]:not([aria-label]), section:not([aria-labelledby]), svg:not([aria-hidden]):not([aria-label]), figure:not([aria-label])')].map(x => x.tagName)
  .concat([...d.querySelectorAll('[aria-labelledby]')].filter(x => !d.getElementById(x.getAttribute('aria-labelledby'))).map(x => 'dangling ' + x.getAttribute('aria-labelledby')));
 out.headings = [...d.querySelectorAll('h1,h2,h3,h4')].map(x => +x.tagName[1]);
 const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
 const light = c => { const f = c.slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
 const behind = x => { for (; x; x = x.parentElement) { const c = rgb(w.getComputedStyle(x).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
 out.contrast = []; out.texts = 0;
 for (const x of all) {
  if (x.closest('svg') || x.closest('.skip') || ![...x.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const a = light(rgb(w.getComputedStyle(x).color)), b = light(behind(x)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  out.texts++;
  if (ratio < 4.5) out.contrast.push(x.tagName + '.' + x.className + ' ' + ratio.toFixed(2));
 }
 out.contrast = out.contrast.slice(0, 5);
 out.scheme = w.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
 document.getElementById('out').textContent = JSON.stringify(out);
});
</script>`

// browse opens a file and returns what the browser prints.
func browse(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args = append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
		"--allow-file-access-from-files", "--user-data-dir=" + t.TempDir()}, args...)
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return string(out)
}

var outElement = regexp.MustCompile(`(?s)<pre id="out">(.*?)</pre>`)

// measure serves the page and nothing else, opens it in a frame, and counts what it asks for.
func measure(t *testing.T, program, page string, width int, flags ...string) measured {
	t.Helper()
	var others atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		var err error
		switch r.URL.Path {
		case "/frame":
			_, err = fmt.Fprintf(w, probe, width, "page")
		case "/page":
			_, err = io.WriteString(w, page)
		case "/favicon.ico": // the browser's own wish
			w.WriteHeader(http.StatusNotFound)
		default:
			others.Add(1)
			w.WriteHeader(http.StatusNotFound)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	dom := browse(t, program, append(flags, "--virtual-time-budget=10000", "--window-size=1400,2000", "--dump-dom", server.URL+"/frame")...)
	found := outElement.FindStringSubmatch(dom)
	var m measured
	if found == nil || json.Unmarshal([]byte(html.UnescapeString(found[1])), &m) != nil {
		t.Fatalf("the browser measured nothing: %.300s", dom)
	}
	m.Resources = int(others.Load())
	return m
}

// The page in a browser, at the width of a desk and of a phone, light and dark.
func TestInChromium(t *testing.T) {
	program := chromium(t)
	long := sample()
	long.GoalID = strings.Repeat("a-very-long-goal-id-", 8)
	long.Rehearsal.GoalID = long.GoalID
	long.Rehearsal.Verdicts[0].Notes = []string{strings.Repeat("x", 200)}
	for _, c := range []struct {
		name  string
		of    evidence.Contents
		width int
		flags []string
	}{
		{"passed", sample(), 1200, nil}, {"passed", sample(), 390, nil}, {"failed", spoilt(), 390, nil}, {"long", long, 390, nil},
		{"failed in the dark", spoilt(), 1200, []string{"--blink-settings=preferredColorScheme=0"}},
	} {
		m := measure(t, program, rendered(t, strings.ReplaceAll(c.name, " ", "-"), c.of), c.width, c.flags...)
		if m.Width != c.width || m.Scroll > c.width || len(m.Overflow) > 0 {
			t.Errorf("%s at %d: the document is %d wide; beyond the window: %v", c.name, c.width, m.Scroll, m.Overflow)
		}
		if m.Resources != 0 {
			t.Errorf("%s at %d: %d other files were asked for", c.name, c.width, m.Resources)
		}
		if len(m.Landmarks) != 3 || m.Captions != 0 || len(m.Unlabelled) > 0 {
			t.Errorf("%s: landmarks %v, %d tables without a caption, without a name: %v", c.name, m.Landmarks, m.Captions, m.Unlabelled)
		}
		if len(m.Contrast) > 0 || m.Texts < 100 {
			t.Errorf("%s (%s): of %d texts too faint: %v", c.name, m.Scheme, m.Texts, m.Contrast)
		}
		headingsInOrder(t, c.name, m.Headings)
		if dark := len(c.flags) > 0; dark != (m.Scheme == "dark") {
			t.Errorf("%s was shown %s", c.name, m.Scheme)
		}
	}
}

// headingsInOrder: one h1, and no level is left out on the way down.
func headingsInOrder(t *testing.T, name string, levels []int) {
	t.Helper()
	for i, level := range levels {
		if (i == 0) != (level == 1) || i > 0 && level > levels[i-1]+1 {
			t.Errorf("%s: heading levels %v", name, levels)
			return
		}
	}
}

// What the measurements call wrong is wrong: a page with each defect has it found.
func TestMeasurementsFindDefects(t *testing.T) {
	program := chromium(t)
	m := measure(t, program, `<!doctype html><header></header><main><section><table><tr><td style="color:#bbb">faint</td></tr></table>
<div style="width:900px">wide</div><svg role="img"></svg><img src="missing.png"></section></main>`, 390)
	if m.Scroll <= 390 || len(m.Overflow) == 0 || m.Resources == 0 || m.Captions != 1 || len(m.Unlabelled) < 2 || len(m.Contrast) != 1 || len(m.Landmarks) != 2 {
		t.Errorf("%+v", m)
	}
}

// cropped leaves of a picture the columns up to a width: Chromium makes no window as narrow
// as a phone.
func cropped(t *testing.T, path string, width int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	part := image.NewRGBA(image.Rect(0, 0, width, whole.Bounds().Dy()))
	draw.Draw(part, part.Bounds(), whole, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := png.Encode(&out, part); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestScreenshots takes pictures of the page that -page names, which is how those of docs/
// were made, into the folder -keep; without them it sees that a picture can be taken.
func TestScreenshots(t *testing.T) {
	program := chromium(t)
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
	}
	text := []byte(rendered(t, "pictured", sample()))
	if *pictured != "" {
		var err error
		if text, err = os.ReadFile(*pictured); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "pictured.html"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		width, height int
	}{{"desktop", 1200, 1900}, {"phone", 390, 1900}} {
		picture := filepath.Join(dir, "evidence-"+c.name+".png")
		frame := filepath.Join(dir, c.name+"-frame.html")
		if err := os.WriteFile(frame, fmt.Appendf(nil, `<style>body{margin:0}iframe{border:0;width:%dpx;height:%dpx}</style><iframe src="pictured.html"></iframe>`, c.width, c.height), 0o600); err != nil {
			t.Fatal(err)
		}
		browse(t, program, "--screenshot="+picture, fmt.Sprintf("--window-size=%d,%d", max(c.width, 500), c.height), "file://"+frame)
		cropped(t, picture, c.width)
		if info, err := os.Stat(picture); err != nil || info.Size() < 20_000 || info.Size() > 300_000 {
			t.Errorf("%s: %v, %+v", c.name, err, info)
		}
	}
}
