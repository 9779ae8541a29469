package main

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/manifest"
)

func (e *env) grantCommand() *cli.Command {
	return &cli.Command{
		Name: "grant", Usage: "let another principal run the commands that change this Goal", ArgsUsage: "PRINCIPAL",
		Description: "PRINCIPAL is os:NAME, os:#UID or role:NAME (a role of the database server).\n" +
			"The owner of the runtime root holds the first grant; whoever holds one gives others.",
		Flags: executeFlags(), Action: e.action(e.changeGrants),
	}
}

func (e *env) revokeCommand() *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: "withdraw a grant, from this moment on", ArgsUsage: "PRINCIPAL",
		Description: "The principal then gets permission_denied, also for operations that had succeeded.\n" +
			"The grant of the runtime root's owner cannot be withdrawn.",
		Flags: executeFlags(), Action: e.action(e.changeGrants),
	}
}

func (e *env) grantsCommand() *cli.Command {
	return &cli.Command{Name: "grants", Usage: "who may run the commands that change this Goal, and who said so", Action: e.action(e.grants)}
}

func (e *env) changeGrants(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	flow, _, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	if r.Principal, err = principalOf(r.Command, c.Args().First(), flow); err != nil {
		return nil, err
	}
	result, err := flow.ChangeGrants(ctx, r)
	return resultAnswer(r, result), err
}

// principalOf reads whose grant is meant. To take one back it is enough that it stands:
// the host may have forgotten that user.
func principalOf(command, text string, flow *cutover.Flow) (string, error) {
	principal, err := cutover.ParsePrincipal(text)
	if err == nil || command != cutover.CommandRevoke || cutover.AsRefusal(err).Kind == cutover.KindUsage {
		return principal, err
	}
	list, failed := flow.Grants()
	if failed != nil {
		return "", failed
	}
	for _, holder := range list.Holders {
		if holder.Principal == text {
			return text, nil
		}
	}
	return "", err
}

func (e *env) grants(_ context.Context, _ *cli.Context, g globals) (*answer, error) {
	flow, _, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	list, err := flow.Grants()
	if err != nil {
		return nil, err
	}
	a := &answer{Status: statusDone, Sentence: "Nothing was changed."}
	a.fact("you_are", flow.Principal)
	a.fact("owner", list.Owner)
	a.fact("holders", append([]manifest.GrantChange{}, list.Holders...))
	a.fact("changes", append([]manifest.GrantChange{}, list.Changes...))
	holders := block{title: "GRANTS", head: []string{"principal", "holds by", "given by", "at"}}
	holders.rows = append(holders.rows, row{cells: []string{list.Owner, "owns the runtime root", "", ""}})
	for _, h := range list.Holders {
		holders.rows = append(holders.rows, row{cells: []string{h.Principal, "change " + strconv.Itoa(h.Seq), h.By, h.At.Format(timeShown)}})
	}
	a.show(pairs("YOU", "principal", flow.Principal), holders)
	if len(list.Changes) > 0 {
		history := block{title: "all changes", head: []string{"change", "grant", "principal", "by", "operation", "at"}}
		for _, c := range list.Changes {
			history.rows = append(history.rows, row{cells: []string{strconv.Itoa(c.Seq), c.Change, c.Principal, c.By, c.OperationID, c.At.Format(timeShown)}})
		}
		a.show(history)
	}
	return a, nil
}

// permitted asks for a grant on the Goal where the flags name one with its runtime root.
// Where they name only stores by URL, the file system and the database server decide.
func (e *env) permitted(ctx context.Context, g globals, r cutover.Request) error {
	if g.goalID == "" || g.runtimeRoot == "" && g.registry == "" {
		return nil
	}
	flow, _, err := e.flow(g)
	if err != nil {
		return err
	}
	return flow.Permitted(ctx, r)
}
