package main

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/loopx-project/loopx-migrate/store/sqlitestore"
)

// node is the Node.js that LoopX would run on here. LoopX opens databases with the
// SQLite inside it and refuses versions with a faulty write-ahead log.
type node struct {
	Version  string `json:"version"`
	SQLite   string `json:"sqlite"`
	Admitted bool   `json:"admitted_by_loopx"`
}

// localNode asks the node on PATH. Nil when there is none or it does not answer:
// whether LoopX runs here is not this tool's trouble.
func localNode(ctx context.Context) *node {
	path, err := exec.LookPath("node")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-p", "process.versions.node + ' ' + (process.versions.sqlite || 'none')").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		return nil
	}
	return &node{Version: words[0], SQLite: words[1], Admitted: sqlitestore.AdmittedByLoopX(words[1])}
}

func (n node) block() block {
	admitted := "yes"
	if !n.Admitted {
		admitted = "NO: LoopX on this Node.js will not open a SQLite store"
	}
	return pairs("LOCAL NODE", "node", n.Version, "sqlite", n.SQLite, "admitted", admitted)
}
