package canonical

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
)

// projections gives two canonical states of about size bytes, built from the
// head of a Goal that LoopX made: its records repeated under new ids. As after
// one mutation, they differ in one record of the middle and in the read
// model's digest, which stands in front of all records.
func projections(tb testing.TB, size int) (prev, next []byte) {
	tb.Helper()
	document, err := os.ReadFile("../../testdata/fixtures/goal-file-v0/runtime/authority/file-v0/authority-store-090edaf83a75669a.json")
	if err != nil {
		tb.Fatal(err)
	}
	if document, err = Append(nil, document); err != nil {
		tb.Fatal(err)
	}
	root := map[string][]byte{}
	for key, value := range Members(memberOf(document, "head")) {
		root[key] = value
	}
	todos := []byte{'['}
	for i := 0; len(todos) < size; i++ {
		for todo := range Elements(root["todos"]) {
			id := fmt.Appendf(nil, `"todo_id":"t%05d-`, i)
			todos = append(append(todos, bytes.Replace(todo, []byte(`"todo_id":"`), id, 1)...), ',')
		}
	}
	todos[len(todos)-1] = ']'
	root["todos"] = todos
	prev = []byte{'{'}
	for key, value := range root {
		prev = append(append(append(AppendString(prev, key), ':'), value...), ',')
	}
	prev[len(prev)-1] = '}'
	if prev, err = Append(nil, prev); err != nil {
		tb.Fatal(err)
	}
	middle := len(prev) - len(todos)/2
	at := middle + bytes.Index(prev[middle:], []byte(`"done":`))
	value := at + len(`"done":`)
	next = append(bytes.Clone(prev[:value]), []byte(`"changed by one mutation"`)...)
	next = append(next, prev[value+Skip(prev[value:]):]...)
	digest := bytes.Index(next, []byte(`"records_sha256":"`)) + len(`"records_sha256":"`)
	copy(next[digest:], "0123456789abcdef0123456789abcdef")
	if err := Check(next); err != nil {
		tb.Fatal(err)
	}
	return prev, next
}

func memberOf(obj []byte, wanted string) []byte {
	for key, value := range Members(obj) {
		if key == wanted {
			return value
		}
	}
	return nil
}

var benchmarkSizes = []struct {
	name  string
	bytes int
}{{"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

func benchmark(b *testing.B, run func(b *testing.B, prev, next []byte)) {
	for _, size := range benchmarkSizes {
		b.Run(size.name, func(b *testing.B) {
			prev, next := projections(b, size.bytes)
			b.SetBytes(int64(len(next)))
			b.ReportAllocs()
			b.ResetTimer()
			run(b, prev, next)
		})
	}
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSHA256 is the yardstick: whoever checks a state also hashes it.
func BenchmarkSHA256(b *testing.B) {
	benchmark(b, func(b *testing.B, _, next []byte) {
		for b.Loop() {
			sha256.Sum256(next)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	benchmark(b, func(b *testing.B, _, next []byte) {
		for b.Loop() {
			must(b, Check(next))
		}
	})
}

func BenchmarkTracker(b *testing.B) {
	benchmark(b, func(b *testing.B, prev, next []byte) {
		var tracker Tracker
		for i := 0; b.Loop(); i++ {
			text := next
			if i%2 == 0 {
				text = prev
			}
			must(b, tracker.Check(text))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	benchmark(b, func(b *testing.B, _, next []byte) {
		spaced := bytes.ReplaceAll(next, []byte(`,"`), []byte(`, "`))
		dst := make([]byte, 0, len(spaced))
		for b.Loop() {
			_, err := Append(dst, spaced)
			must(b, err)
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	benchmark(b, func(b *testing.B, prev, next []byte) {
		for b.Loop() {
			_, err := Diff(prev, next)
			must(b, err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	benchmark(b, func(b *testing.B, prev, next []byte) {
		d, err := Diff(prev, next)
		must(b, err)
		dst := make([]byte, 0, 2*len(next))
		for b.Loop() {
			_, err := d.Apply(dst, prev)
			must(b, err)
		}
	})
}

// BenchmarkState is one step of a long replay, result printed.
func BenchmarkState(b *testing.B) {
	benchmark(b, func(b *testing.B, prev, next []byte) {
		there, err := Diff(prev, next)
		must(b, err)
		back, err := Diff(next, prev)
		must(b, err)
		state, err := NewState(prev)
		must(b, err)
		dst := make([]byte, 0, 2*len(next))
		for i := 0; b.Loop(); i++ {
			d := there
			if i%2 == 1 {
				d = back
			}
			must(b, state.Apply(d))
			state.AppendTo(dst)
		}
	})
}

func BenchmarkSkip(b *testing.B) {
	benchmark(b, func(b *testing.B, _, next []byte) {
		for b.Loop() {
			Skip(next)
		}
	})
}
