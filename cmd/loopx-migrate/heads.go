package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
)

func (e *env) upgradeHeadCommand() *cli.Command {
	return &cli.Command{
		Name: "upgrade-head", Usage: "take a coordination head from schema v0 to v1, as one transaction with its receipt",
		Description: "The history of claims is rebuilt from the receipts and must agree with the live claims.\n" +
			"--store-identity is the store you verified; the head is bound to it.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "store-identity", Usage: "the `IDENTITY` of the authority, as inspect shows it"},
		}, executeFlags()...),
		Action: e.action(e.changeHead),
	}
}

func (e *env) rebindCommand() *cli.Command {
	return &cli.Command{
		Name: "rebind", Usage: "bind a coordination head to the store it was migrated to, as one transaction with its receipt",
		Description: "The receipt names the migration and the digest of its manifest. Until then every\n" +
			"command on the head answers store_lineage_mismatch.",
		Flags: executeFlags(), Action: e.action(e.changeHead),
	}
}

func (e *env) changeHead(ctx context.Context, c *cli.Context, g globals) (*answer, error) {
	r, err := e.request(c)
	if err != nil {
		return nil, err
	}
	if r.Command == cutover.CommandUpgradeHead {
		r.Store = authority.Identity(c.String("store-identity"))
		if !validIdentity(r.Store) {
			return nil, usage("store_identity_required", "%q is no store's identity: give --store-identity KIND:32-DIGITS of the store you verified (inspect shows it)", r.Store)
		}
	}
	flow, meter, err := e.flow(g)
	if err != nil {
		return nil, err
	}
	result, err := flow.ChangeHead(ctx, r)
	meter.done()
	a := resultAnswer(r, result)
	if a.Status == statusDone {
		a.Sentence = "The transaction is committed and its receipt was read back."
	}
	return a, err
}

func validIdentity(identity authority.Identity) bool {
	for _, kind := range []authority.Kind{authority.KindFile, authority.KindSQLite, authority.KindPostgreSQL} {
		if identity.Valid(kind) {
			return true
		}
	}
	return false
}
