// Command empty is the least that a program with urfave/cli is: what the start of
// `version` is compared with.
package main

import (
	"os"

	"github.com/urfave/cli/v2"
)

func main() {
	app := &cli.App{Commands: []*cli.Command{{Name: "version", Action: func(*cli.Context) error { return nil }}}}
	if err := app.Run(os.Args); err != nil {
		os.Exit(1)
	}
}
