package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/manifest"
)

// Contents is what a bundle is made from. Manifest or Rehearsal may be missing, not both.
type Contents struct {
	GoalID      string
	MadeAt      time.Time
	Manifest    *manifest.Manifest   // the current migration, or the last one
	Earlier     []*manifest.Manifest // those before it
	Outcomes    []manifest.Outcome
	Rehearsal   *Rehearsal
	Environment Environment
}

// Names of the files of a bundle.
const (
	fileManifest    = "manifest.json"
	fileOutcomes    = "outcomes.json"
	filePlans       = "plans.json"
	fileVerdicts    = "verdicts.json"
	fileProbes      = "probes.json"
	fileTimings     = "timings.json"
	fileRehearsal   = "rehearsal.json"
	fileEnvironment = "environment.json"
	// FilePage is the page for people.
	FilePage   = "report.html"
	earlierDir = "earlier/"
)

// Files are the documents of a bundle, payloads replaced by digests. The page is not
// among them.
func (c Contents) Files() ([]File, error) {
	documents := map[string]any{fileEnvironment: c.Environment}
	if c.Rehearsal != nil {
		documents[fileRehearsal] = c.Rehearsal
	}
	if c.Manifest != nil {
		m := withoutPayload(c.Manifest)
		documents[fileManifest], documents[fileOutcomes] = m, listOf("outcomes", c.Outcomes)
		for name, drawn := range drawnFrom(m) {
			documents[name] = drawn
		}
	}
	for _, m := range c.Earlier {
		documents[earlierDir+m.MigrationID+".json"] = withoutPayload(m)
	}
	var files []File
	for name, document := range documents {
		text, err := manifest.Encode(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, File{name, append(text, '\n')})
	}
	return files, nil
}

// withoutPayload is a manifest whose copy of LoopX's selector is replaced by its digest.
func withoutPayload(m *manifest.Manifest) *manifest.Manifest {
	shared := *m
	if text := shared.Selector.Text; text != "" && !strings.HasPrefix(text, "sha256:") {
		shared.Selector.Text = "sha256:" + authority.DigestOf([]byte(text)).String()
	}
	return &shared
}

func listOf[T any](name string, list []T) map[string]any {
	if list == nil {
		list = []T{}
	}
	return map[string]any{name: list}
}

// plan is what a step was asked for and allowed by.
type plan struct {
	Seq         int              `json:"seq"`
	Command     string           `json:"command"`
	OperationID string           `json:"operation_id"`
	Fingerprint authority.Digest `json:"fingerprint"`
	PlanDigest  string           `json:"plan_digest,omitempty"`
}

// timing is how long a step took. Outage is the time in which nobody could write.
type timing struct {
	Seq            int       `json:"seq"`
	Command        string    `json:"command"`
	StartedAt      time.Time `json:"started_at"`
	DurationMillis int64     `json:"duration_ms"`
	OutageMillis   string    `json:"outage_ms,omitempty"`
}

// drawnFrom are the documents that follow from a manifest, so that each can be read alone
// and still be held against it.
func drawnFrom(m *manifest.Manifest) map[string]any {
	plans, timings := []plan{}, []timing{}
	for _, s := range m.Steps {
		plans = append(plans, plan{s.Seq, s.Command, s.OperationID, s.Fingerprint, s.Evidence["plan"]})
		timings = append(timings, timing{s.Seq, s.Command, s.StartedAt, s.FinishedAt.Sub(s.StartedAt).Milliseconds(), s.Facts["outage_ms"]})
	}
	var probes []manifest.Probe
	if m.Fence != nil {
		probes = m.Fence.Probes
	}
	return map[string]any{
		filePlans: listOf("plans", plans), fileTimings: listOf("timings", timings),
		fileVerdicts: listOf("verdicts", m.Verdicts), fileProbes: listOf("probes", probes),
	}
}

// means checks what the files say, now that their bytes are those that were written.
func (c *Checked) means(files []File) error {
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.Name] = f.Content
	}
	if byName[fileManifest] == nil && byName[fileRehearsal] == nil {
		return &BundleError{fileManifest, "there is neither a manifest nor a rehearsal"}
	}
	for _, f := range files {
		switch {
		case f.Name == fileRehearsal:
			r, err := DecodeRehearsal(f.Content)
			if err != nil {
				return &BundleError{f.Name, err.Error()}
			}
			if r.GoalID != c.Index.GoalID {
				return &BundleError{f.Name, "it is of another goal"}
			}
			c.Rehearsal = r.Result
		case f.Name == fileManifest || strings.HasPrefix(f.Name, earlierDir):
			if err := c.manifest(f, byName); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifest recomputes the chain of steps and what was drawn from it.
func (c *Checked) manifest(f File, files map[string][]byte) error {
	dec := json.NewDecoder(bytes.NewReader(f.Content))
	dec.DisallowUnknownFields()
	var m manifest.Manifest
	if err := dec.Decode(&m); err != nil || m.SchemaVersion != manifest.SchemaVersion {
		return &BundleError{f.Name, "it is no manifest of this version"}
	}
	if m.GoalID != c.Index.GoalID {
		return &BundleError{f.Name, "it is of another goal"}
	}
	if err := m.VerifySteps(); err != nil {
		return &BundleError{f.Name, err.Error()}
	}
	c.Steps += len(m.Steps)
	if f.Name != fileManifest {
		return nil
	}
	for name, drawn := range drawnFrom(&m) {
		want, err := manifest.Encode(drawn)
		if err != nil {
			return err
		}
		if !bytes.Equal(files[name], append(want, '\n')) {
			return &BundleError{name, "it is not what " + fileManifest + " says"}
		}
	}
	return nil
}
