package filestore_test

import (
	"os"
	"testing"
)

// child, where it is set, is what this binary does in place of testing: a process
// that a fault may break.
var child func()

func TestMain(m *testing.M) {
	if child != nil {
		child()
	}
	code := m.Run()
	if journals.dir != "" {
		os.RemoveAll(journals.dir) //nolint:errcheck // a temporary folder
	}
	os.Exit(code)
}
