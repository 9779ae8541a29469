package sqlitestore

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// Codes of harmless oddities that only a SQLite store has.
const (
	// FindingExtraObject: a trigger, index or view beside LoopX's own.
	FindingExtraObject = "extra_object"
	// FindingFence: triggers of this tool's fence stand in the database.
	FindingFence = "fence_engaged"
	// FindingSchema: a table of LoopX's is not defined as LoopX defines it.
	FindingSchema = "schema_differs"
	// FindingApplicationID: application_id is set; LoopX leaves it at 0.
	FindingApplicationID = "application_id_set"
)

// inspect checks the file: b-trees, indexes and constraints, foreign keys, operation ids,
// and whatever stands in it beside LoopX's tables.
func (a *audit) inspect(s *session) error {
	a.lineage.Findings, a.findings = nil, map[string]int{}
	for _, check := range []struct{ field, query, fine string }{
		{"commits.operation_id", "SELECT operation_id FROM commits GROUP BY operation_id HAVING COUNT(*) > 1 LIMIT 1", ""},
		{"integrity_check", "PRAGMA integrity_check(1)", "ok"},
		{"foreign_key_check", "SELECT \"table\" FROM pragma_foreign_key_check", ""},
	} {
		said, err := s.firstText(check.query)
		if err != nil {
			return err
		}
		if said != check.fine {
			return defect(check.field, said)
		}
	}
	var application int64
	if err := s.row([]any{&application}, "PRAGMA application_id"); err != nil {
		return err
	}
	if application != 0 {
		a.note(authority.Finding{Code: FindingApplicationID, Detail: fmt.Sprint(application)})
	}
	if err := a.inspectObjects(s); err != nil {
		return err
	}
	return a.inspectCheckpoints(s)
}

func defect(field, detail string) *refusal {
	r := refuse(authority.ClassFailed, authority.ReasonDefect, detail).Field(field)
	r.Made.Findings = authority.Findings{{Code: string(authority.ReasonDefect), Field: field, Detail: detail}}
	return r
}

// firstText is the first column of the first row, empty when there is none.
func (s *session) firstText(query string) (text string, err error) {
	rows, err := s.query(query)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		err = rows.Scan(&text)
	}
	return text, errors.Join(err, rows.Err())
}

// inspectObjects notes what is not LoopX's. sqlite_ names are SQLite's own.
func (a *audit) inspectObjects(s *session) (err error) {
	fence, err := s.fence()
	if err != nil {
		return defect("sqlite_master", err.Error())
	}
	if fence != "" {
		a.note(authority.Finding{Code: FindingFence, Field: "sqlite_master", Detail: fence})
	}
	rows, err := s.query("SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE name NOT GLOB 'sqlite_*' ORDER BY name")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			return err
		}
		code := ""
		switch defined := definition(name); {
		case kind == "trigger" && strings.HasPrefix(name, fencePrefix):
		case kind == "table" && defined == "":
			code = authority.FindingExtraTable
		case kind != "table":
			code = FindingExtraObject
		case plainNames(text) != defined:
			code = FindingSchema
		}
		if code != "" {
			a.note(authority.Finding{Code: code, Field: "sqlite_master", Detail: kind + " " + name})
		}
	}
	return rows.Err()
}

// definition is LoopX's text for a table, empty for a table that is not LoopX's.
func definition(table string) string {
	for _, text := range schema {
		if strings.HasPrefix(text, "CREATE TABLE "+table+" (") {
			return text
		}
	}
	return ""
}

// plainNames undoes the quotes that SQLite puts round table names when LoopX's migration
// from version 1 renames them.
func plainNames(text string) string {
	for _, table := range []string{"commits", "checkpoints", "head"} {
		text = strings.ReplaceAll(text, `"`+table+`"`, table)
	}
	return text
}

// inspectCheckpoints notes checkpoints that no read ever looks for.
func (a *audit) inspectCheckpoints(s *session) (err error) {
	rows, err := s.query("SELECT cursor FROM checkpoints WHERE (cursor - 1) % ? <> 0"+
		" OR cursor > (SELECT coalesce(max(cursor), 0) FROM commits) ORDER BY cursor", checkpointInterval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var cursor int64
		if err := rows.Scan(&cursor); err != nil {
			return err
		}
		a.note(authority.Finding{Code: authority.FindingStrayCheckpoint,
			Cursor: authority.Cursor(cursor), Field: "checkpoints.cursor"})
	}
	return rows.Err()
}

// readModelFault compares the head's todo_read_model with the records beside it and
// returns the member that differs, empty when none does or there is none to compare.
func readModelFault(projection []byte) string {
	member := maps.Collect(canonical.Members(projection))
	model, todos := member["todo_read_model"], member["todos"]
	if canonical.Kind(model) != canonical.Object || canonical.Kind(todos) != canonical.Array {
		return ""
	}
	right := map[string]string{
		"records_sha256": `"` + authority.DigestOf(todos).String() + `"`,
		"todo_count":     fmt.Sprint(elements(todos)),
	}
	for name, value := range canonical.Members(model) {
		if want, checked := right[name]; checked && want != string(value) {
			return name
		}
	}
	return ""
}
