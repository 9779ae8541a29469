package filestore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loopx-project/loopx-migrate/authority"
)

// The digests are those of SHA-256 over the whole text, whatever was hashed before.
func TestPrefixSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var p prefixSum
	text := make([]byte, 3*sumStride+17)
	for round := range 2000 {
		switch random.IntN(4) {
		case 0:
			text = text[:random.IntN(len(text)+1)]
		case 1:
			text = slices.Concat(text, make([]byte, random.IntN(2*sumStride)))
		case 2: // the same text again
		default:
			if len(text) > 0 {
				text[random.IntN(len(text))]++
			}
		}
		if got, want := p.digest(text), authority.DigestOf(text); got != want {
			t.Fatalf("round %d, %d bytes: %s, want %s", round, len(text), got, want)
		}
	}
}
