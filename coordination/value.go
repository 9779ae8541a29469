package coordination

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// object is a JSON object taken apart: canonical values by key.
type object map[string][]byte

// takeApart gives the members of canonical text, which become the object's own.
func takeApart(text []byte) object {
	o := object{}
	for key, value := range canonical.Members(text) {
		o[key] = value
	}
	return o
}

// spell puts the object together in LoopX's order of keys.
func (o object) spell() []byte {
	keys := make([]string, 0, len(o))
	for key := range o {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	out := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(canonical.AppendString(out, key), ':')
		out = append(out, o[key]...)
	}
	return append(out, '}')
}

// compareKeys is the order in which keys are printed: array indices first.
func compareKeys(a, b string) int {
	switch {
	case a == b:
		return 0
	case canonical.Less(a, b):
		return -1
	}
	return 1
}

// clone is a copy that may be changed.
func (o object) clone() object {
	c := make(object, len(o))
	for key, value := range o {
		c[key] = value
	}
	return c
}

// setText sets a string, or removes the key when the string is empty.
func (o object) setText(key, value string) {
	if value == "" {
		delete(o, key)
		return
	}
	o[key] = spellText(value)
}

func (o object) text(key string) string { return textOf(o[key]) }

// list spells a JSON list of canonical values.
func list(values ...[]byte) []byte {
	out := []byte{'['}
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']')
}

func spellText(s string) []byte { return canonical.AppendString(nil, s) }

func spellTexts(all []string) []byte {
	values := make([][]byte, len(all))
	for i, s := range all {
		values[i] = spellText(s)
	}
	return list(values...)
}

func spellInteger(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func spellBool(b bool) []byte { return strconv.AppendBool(nil, b) }

// textOf is the value of a JSON string, "" for anything else.
func textOf(value []byte) string {
	if canonical.Kind(value) != canonical.String {
		return ""
	}
	s, err := canonical.ParseString(value)
	if err != nil {
		return ""
	}
	return s
}

// textsOf are the strings of a JSON list.
func textsOf(value []byte) []string {
	var all []string
	for element := range canonical.Elements(value) {
		all = append(all, textOf(element))
	}
	return all
}

// maxInteger is the largest integer two languages read alike.
const maxInteger = 1<<53 - 1

// integerOf reads a JSON integer from 0 to 2^53-1. A boolean, a float or a string is none.
func integerOf(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 || n > maxInteger || string(spellInteger(n)) != string(value) {
		return 0, false
	}
	return n, true
}

// Instant is a time as a record spells it: RFC 3339 in UTC. The spelling is kept, since
// records that a command does not touch keep their bytes.
type Instant string

// timeLayout is how times are written: whole seconds, as LoopX writes them.
const timeLayout = "2006-01-02T15:04:05Z"

// InstantOf spells a time, cut to whole seconds.
func InstantOf(at time.Time) Instant { return Instant(at.UTC().Format(timeLayout)) }

// Time reads the instant; ok is false when it has no zone, another zone than UTC, or is no time.
func (i Instant) Time() (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, string(i))
	_, offset := at.Zone()
	return at, err == nil && offset == 0
}

// digestText is "sha256:" and the hexadecimal SHA-256 of canonical text.
func digestText(text []byte) string {
	sum := sha256.Sum256(text)
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "sha256:"

// isDigest reports whether s is "sha256:" and 64 lower-case hexadecimal digits.
func isDigest(s string) bool {
	rest, found := strings.CutPrefix(s, digestPrefix)
	if !found {
		return false
	}
	_, err := authority.ParseDigest(rest)
	return err == nil
}

// What names may look like. Each is narrow enough that no path, credential or sentence
// fits into a receipt: those outlive every redaction.
var (
	operationPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,159}$`)
	agentPattern      = regexp.MustCompile(`^[a-z][a-z0-9_.:@-]{0,79}$`) // as LoopX's claimed_by
	devicePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,79}$`)
	todoPattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,95}$`)
	leasePattern      = regexp.MustCompile(`^[A-Za-z0-9_.:@-][A-Za-z0-9_.:@/-]{0,159}$`) // LoopX's lease keys, none a path
	repositoryPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*:?[A-Za-z0-9._:/-]{0,199}$`)
	codePattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$`)
	codeWordPattern   = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,79}$`)
	artifactPattern   = regexp.MustCompile(`^artifact://(public|private)/[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	drivePattern      = regexp.MustCompile(`^[A-Za-z]:[/\\]`)
)
