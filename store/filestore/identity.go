package filestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/atomicfile"
	"github.com/loopx-project/loopx-migrate/internal/lockfile"
)

// identityLength is `file:` and 32 digits, without a newline.
const identityLength = 37

// readIdentity reads the identity file and writes nothing. Absent is ClassMissing.
func readIdentity(path string) (authority.Identity, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return "", missing()
	}
	if err != nil {
		return "", unreadable(err)
	}
	text, err := io.ReadAll(io.LimitReader(file, identityLength+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", unreadable(err)
	}
	identity := authority.Identity(text)
	if !identity.Valid(authority.KindFile) {
		return "", violation("store identity does not match file:<32 lowercase hex>").at(0, "store-identity")
	}
	return identity, nil
}

func identityMissing(reason authority.Reason) *refusal {
	return &refusal{Class: authority.ClassUnavailable, Reason: reason, Detail: "existing store identity is missing"}
}

// Identity returns the identity of the folder. It never mints one: where there is
// none it is ClassUnavailable, also where LoopX would write a fresh one.
func (s *Store) Identity(ctx context.Context) (authority.Identity, error) {
	if err := ctx.Err(); err != nil {
		return "", s.refuse("identity", err)
	}
	identity, err := readIdentity(s.identityPath)
	if err == nil {
		return identity, nil
	}
	var r *refusal
	switch {
	case isMissing(err):
		err = identityMissing(authority.ReasonIdentityUnavailable)
	case errors.As(err, &r) && r.Class == authority.ClassFailed:
		r.Reason = authority.ReasonIdentityInvalid
	case errors.As(err, &r):
		r.Reason = authority.ReasonIdentityUnavailable
	}
	return "", s.refuse("identity", err)
}

// mintIdentity gives the folder an identity unless another process just did, as
// LoopX does it: under the identity's own lock, inside the document's.
func (s *Store) mintIdentity(ctx context.Context) (authority.Identity, error) {
	lock, err := lockfile.AcquireMarker(ctx, s.identityPath, s.options.LockWait)
	if err != nil {
		return "", lockRefusal(err)
	}
	// A lock file that stays behind is reclaimed once this process ended; the
	// identity is in place all the same.
	defer func() { _ = lock.Release() }()
	identity, err := readIdentity(s.identityPath)
	if !isMissing(err) {
		return identity, err
	}
	digits := make([]byte, 16)
	rand.Read(digits) //nolint:errcheck // crypto/rand never fails; it ends the process instead
	identity = authority.Identity("file:" + hex.EncodeToString(digits))
	if err := atomicfile.MkdirAll(filepath.Dir(s.identityPath), 0o700); err != nil {
		return "", failed(authority.ReasonWriteUnavailable, "the store's folder could not be made").because(err)
	}
	// An identity that is in place but not known to be durable would be minted
	// anew after a power loss, under a document that names the old one.
	if err := atomicfile.Replace(s.identityPath, 0o600, []byte(identity)); err != nil {
		return "", failed(authority.ReasonWriteUnavailable, "the store's identity could not be written").because(err)
	}
	return identity, nil
}

// lockRefusal is what a lock that was not had comes to.
func lockRefusal(err error) error {
	var busy *lockfile.BusyError
	if errors.As(err, &busy) {
		return failed(authority.ReasonLockTimeout, "Effect runtime mutation lock timed out").because(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return failed(authority.ReasonWriteUnavailable, "the journal's lock could not be taken").because(err)
}
