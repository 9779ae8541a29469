package export

import (
	"bytes"
	"context"
)

// ProveBytes proves an archive in memory, for tests that prove very many.
func ProveBytes(ctx context.Context, content []byte) (Seal, error) {
	a := &Archive{content: bytes.NewReader(content)}
	if err := a.open(); err != nil {
		return Seal{}, err
	}
	return a.Prove(ctx)
}
