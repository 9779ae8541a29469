// Loopx-migrate moves a LoopX Goal's authority from one store to another, by steps
// that are previewed, executed and proved one by one. What it does is in package
// cutover; this package parses the command line, opens stores and prints answers.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// main is the only place that exits, so that every deferred unlock runs.
func main() { os.Exit(program()) }

// program runs the command line of this process. A first Ctrl-C, and a terminal that goes
// away, cancels the context,
// and the flow stops at a safe point; a second one kills, which the flow survives.
// SIGPIPE is ignored, or a reader that goes away (2>&1 | head -1) would kill a
// migration between two effects.
func program() int {
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup starts it
		signal.Notify(asked, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-asked:
			signal.Stop(asked)
			cancel()
			fmt.Fprintln(os.Stderr, "stopping at the next safe point; a second Ctrl-C kills")
		case <-ctx.Done():
		}
	}()
	return newEnv(os.Args[0], os.Stdout, os.Stderr).run(ctx, os.Args[1:])
}
