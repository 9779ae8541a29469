package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

const (
	markerSuffix = ".ts-effect.lock"
	// Far shorter than LoopX's 25 ms: a writer that takes the lock again as soon as it gave
	// it up leaves it free for a fraction of a millisecond.
	markerInterval = 3 * time.Millisecond
)

// AcquireMarker takes the marker lock of target, waiting at most wait (LoopX: 5 s,
// 30 s for the maintenance lock; 0 asks once). A lock whose owner is dead, or that
// names none and is ten seconds old, is cleared away at no cost of time. Errors are
// *BusyError, the cause of ctx (joined with a *BusyError once it waited), ErrUnsafe,
// or what the file system said. It is not re-entrant.
func AcquireMarker(ctx context.Context, target string, wait time.Duration) (*Lock, error) {
	path := target + markerSuffix
	return waiter{
		family: Marker, target: target, wait: wait, interval: markerInterval,
		attempt: func() (*Lock, error) { return tryMarker(path) },
		holder:  func() int { return markerHolder(path) },
	}.acquire(ctx)
}

func markerHolder(path string) int {
	seen, err := sight(path)
	if err != nil {
		return 0
	}
	pid := int(seen.owner.PID)
	if seen.close() != nil {
		return 0
	}
	return pid
}

func tryMarker(path string) (*Lock, error) {
	held, err := createMarker(path)
	if errors.Is(err, fs.ErrExist) {
		return nil, contest(path)
	}
	if err != nil {
		return nil, err
	}
	return &Lock{release: held.release}, nil
}

// marker is a lock file or a claim that this process created.
type marker struct {
	path  string
	owner owner
	file  *faultio.File
}

// createMarker makes the file and proves that it is in its place: another process
// might have cleared it away before it was written.
func createMarker(path string) (*marker, error) {
	file, err := faultio.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	m := &marker{path, owner{int64(os.Getpid()), uuid.NewString()}, file}
	if err := m.sign(); err != nil {
		return nil, errors.Join(err, m.withdraw())
	}
	return m, nil
}

func (m *marker) sign() error {
	// LoopX does not look at this flock. It is for processes of this tool in another
	// pid namespace, to whom our process id looks dead.
	if err := tryFlock(m.file.Fd()); err != nil {
		return err
	}
	text, err := m.owner.encode()
	if err != nil {
		return err
	}
	if _, err := m.file.Write(text); err != nil {
		return err
	}
	if err := m.check(); errors.Is(err, errNotOurs) {
		return errTaken
	} else if err != nil {
		return err
	}
	return nil
}

// check fails with errNotOurs unless path is the file we created, with our owner
// in it. Our open file keeps the inode from being used again, so device and inode
// say everything and no birth time is needed.
func (m *marker) check() error {
	info, err := m.file.Stat()
	if err != nil {
		return err
	}
	ours := sighting{path: m.path, info: info, owner: m.owner, readable: true}
	return ours.same()
}

// withdraw removes the file if it is still the one we created, and closes it.
func (m *marker) withdraw() error {
	ours, err := m.file.Stat()
	var there fs.FileInfo
	if err == nil {
		there, err = os.Lstat(m.path)
	}
	if err == nil && os.SameFile(ours, there) {
		err = faultio.Remove(m.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.file.Close())
}

// release removes the lock by way of a claim and a second name, so that at no
// moment a successor's lock can be hit.
func (m *marker) release() error {
	err := m.clear()
	switch {
	case errors.Is(err, errNotOurs):
		err = ErrLost
	case errors.Is(err, errTaken):
		// Somebody is clearing us away although we live.
		err = fmt.Errorf("release: %w", ErrLost)
	}
	return errors.Join(err, m.file.Close())
}

func (m *marker) clear() error {
	if err := m.check(); err != nil {
		return err
	}
	return clearAway(m.path, m.owner.Token, "released", m.check)
}

// contest clears the lock in our way if it is stale. It answers errTaken when it
// is not, and errChanged when the way may be free.
func contest(path string) (err error) {
	seen, err := sight(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seen.close()) }()
	if !seen.stale() {
		return errTaken
	}
	// Two processes of this tool can pass the claim when one of them breaks a dead
	// claim; the flock on the very file lets only one go on. See also marker.sign.
	if err := tryFlock(seen.file.Fd()); err != nil {
		return err
	}
	err = clearAway(path, seen.claimToken(), "stale", seen.same)
	if err == nil || errors.Is(err, errNotOurs) {
		return errChanged
	}
	return err
}

// clearAway removes the lock at path under the claim for its token, after still
// has confirmed that it is the lock that was meant.
func clearAway(path, token, suffix string, still func() error) error {
	claim, err := takeClaim(claimPath(path, token))
	if err != nil {
		return err
	}
	aside := fmt.Sprintf("%s.%s.%s", path, suffix, uuid.NewString())
	err = still()
	if err == nil {
		err = faultio.Rename(path, aside)
	}
	if err == nil {
		err = faultio.Remove(aside)
	}
	return errors.Join(err, claim.withdraw())
}

// takeClaim creates a claim and syncs it, as LoopX does. A claim of a dead process is removed
// once; a live one is errTaken.
func takeClaim(path string) (*marker, error) {
	claim, err := createMarker(path)
	if errors.Is(err, fs.ErrExist) {
		if err := breakClaim(path); err != nil {
			return nil, err
		}
		claim, err = createMarker(path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	if err := claim.file.Sync(); err != nil {
		return nil, errors.Join(err, claim.withdraw())
	}
	return claim, nil
}

func breakClaim(path string) (err error) {
	seen, err := sight(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seen.close()) }()
	if !seen.stale() {
		return errTaken
	}
	if err := tryFlock(seen.file.Fd()); err != nil {
		return err
	}
	if err := seen.same(); err != nil {
		return errTaken
	}
	return faultio.Remove(path)
}
