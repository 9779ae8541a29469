package main

import (
	"strings"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
)

// anchor is a logical digest that was kept outside a store. Whoever can rewrite a
// database can rewrite its rows and every digest beside them, but not this one.
type anchor struct {
	cursor  authority.Cursor // zero: there is none to check
	digest  authority.Digest
	through *authority.LogicalHash
	seen    authority.Cursor
}

func anchorText(cursor authority.Cursor, logical authority.Digest) string {
	return cursor.String() + ":" + logical.String()
}

func parseAnchor(text string) (*anchor, error) {
	a := &anchor{through: authority.NewLogicalHash()}
	if text == "" {
		return a, nil
	}
	cursor, digest, _ := strings.Cut(text, ":")
	var err error
	if a.cursor, err = authority.ParseCursor(cursor); err == nil {
		a.digest, err = authority.ParseDigest(digest)
	}
	if err != nil {
		return nil, usage("flag_value", "--anchor is %q and must be what an earlier verify printed, CURSOR:DIGEST", text)
	}
	return a, nil
}

// add takes the next row of the store.
func (a *anchor) add(row authority.Row) {
	if row.Cursor <= a.cursor {
		a.through.Add(row)
		a.seen = row.Cursor
	}
}

// check refuses a store whose rows through the anchor's cursor are not those it was
// made of.
func (a *anchor) check() error {
	if a.cursor == 0 || a.seen == a.cursor && a.through.Digest() == a.digest {
		return nil
	}
	found := "its rows through cursor " + a.cursor.String() + " are not those the anchor was made of"
	if a.seen < a.cursor {
		found = "it ends at cursor " + a.seen.String() + ", before the anchor's cursor " + a.cursor.String()
	}
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "anchor_differs", Next: []string{"inspect"},
		Sentence: "the store verifies by itself and was rewritten or rewound: " + found}
}
