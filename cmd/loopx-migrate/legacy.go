package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/legacy"
)

// legacyFacts is what an inspection tells of the legacy files as it may be shared: of a
// value in the file the digest. The value itself is in the table.
func legacyFacts(g *legacy.Goal) map[string]any {
	counts := g.Counts()
	leases := make([]map[string]any, len(g.Leases))
	for i, l := range g.Leases {
		leases[i] = map[string]any{"todo_id": l.TodoID, "status": l.Status(), "owner": l.Owner(), "version": l.Version(), "lease_epoch": l.Epoch()}
	}
	findings := make([]map[string]any, len(g.Findings))
	for i, f := range g.Findings {
		findings[i] = findingFacts(f)
	}
	outside := []map[string]any{}
	for _, row := range g.Outside() {
		outside = append(outside, map[string]any{"todo_id": row.TodoID, "line": row.Line, "status": row.Status})
	}
	return map[string]any{"active": counts.Active, "archived": counts.Archived, "leases": leases, "findings": findings, "outside": outside,
		"clock": g.Clock.UTC().Format(time.RFC3339), "files_digest": g.Files.Digest()}
}

func findingFacts(f legacy.Finding) map[string]any {
	facts := map[string]any{"code": f.Code, "weight": f.Weight.String(), "detail": f.Detail}
	for name, value := range map[string]string{"todo_id": f.TodoID, "file": f.File, "key": f.Key} {
		if value != "" {
			facts[name] = value
		}
	}
	if f.Value != "" {
		facts["value_sha256"] = authority.DigestOf([]byte(f.Value)).String()
	}
	if f.Line > 0 {
		facts["line"] = f.Line
	}
	return facts
}

// legacyBlocks shows counts, leases, and every finding.
func legacyBlocks(g *legacy.Goal) []block {
	counts := g.Counts()
	b := pairs("LEGACY FILES (the authority)", "user todos", countsText(counts.Active[legacy.RoleUser]), "agent todos", countsText(counts.Active[legacy.RoleAgent]),
		"archived", countsText(counts.Archived), "outside any head", strconv.Itoa(counts.Outside), "leases", countsText(counts.Leases),
		"clock", g.Clock.UTC().Format(time.RFC3339), "digest", g.Files.Digest().String())
	blocks := []block{b}
	if len(g.Findings) == 0 {
		return blocks
	}
	found := block{title: "findings", head: []string{"finding", "weight", "where", "value", "what it says"}}
	for _, f := range g.Findings {
		found.rows = append(found.rows, row{cells: []string{f.Code, f.Weight.String(), findingPlace(f), f.Value, f.Detail}})
	}
	return append(blocks, found)
}

func findingPlace(f legacy.Finding) string {
	place := f.TodoID
	if f.File != "" {
		place += " " + f.File
	}
	if f.Line > 0 {
		place += fmt.Sprintf(" line %d", f.Line)
	}
	if f.Key != "" {
		place += " " + f.Key
	}
	return place
}

func countsText(counts map[string]int) string {
	text := ""
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(", %d %s", counts[status], status)
	}
	if text == "" {
		return "none"
	}
	return text[2:]
}
