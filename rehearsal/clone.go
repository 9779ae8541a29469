package rehearsal

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/cutover"
	"github.com/loopx-project/loopx-migrate/fence"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// copied is a copy of a Goal in a folder of its own.
type copied struct {
	dir          string
	place        authority.Place
	registration fence.Registration
}

// copyGoal copies a Goal's files into a folder that does not exist yet. Only bytes and
// permissions travel: links are refused, so that no copy leads back to its source.
func copyGoal(ctx context.Context, place authority.Place, registration fence.Registration, dir string) (copied, error) {
	c := copied{dir: dir}
	var err error
	if c.place, err = authority.NewPlace(filepath.Join(dir, runtimeRel), place.GoalID()); err != nil {
		return c, err
	}
	all, err := parts(place, registration)
	if err != nil {
		return c, err
	}
	if err := faultio.MkdirAll(c.place.Root(), 0o700); err != nil {
		return c, err
	}
	if registration.StateFile != "" {
		c.registration.StateFile = filepath.Join(dir, filepath.FromSlash(stateRel))
	}
	for key := range registration.EventLogs {
		if c.registration.EventLogs == nil {
			c.registration.EventLogs = map[string]string{}
		}
		c.registration.EventLogs[key] = filepath.Join(dir, filepath.FromSlash(logsRel), key)
	}
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if err := copyFile(p.from, filepath.Join(dir, filepath.FromSlash(p.rel))); err != nil {
			return c, err
		}
	}
	return c, nil
}

func copyFile(from, to string) (err error) {
	if err := faultio.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := faultio.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Chmod(info.Mode().Perm()), out.Close())
}

// tries is how often a source that is being written is copied again.
const tries = 5

// cloneSource copies the source and proves the copy by its digest, again while somebody
// writes. It returns the source's digest before.
func cloneSource(ctx context.Context, place authority.Place, registration fence.Registration, dir string) (c copied, before authority.Digest, bytes int64, err error) {
	for range tries {
		if before, bytes, err = Tree(place, registration); err != nil {
			return c, before, bytes, sorted(err)
		}
		c, err = copyGoal(ctx, place, registration, dir)
		if err == nil {
			var is authority.Digest
			if is, _, err = Tree(c.place, c.registration); err == nil && is == before {
				return c, before, bytes, nil
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, before, bytes, sorted(err)
		}
		if err := faultio.RemoveAll(dir); err != nil {
			return c, before, bytes, err
		}
	}
	return c, before, bytes, &cutover.Refusal{Kind: cutover.KindUnreachable, Reason: "source_busy", Err: err,
		Sentence: "the source was written each time it was copied, so that no copy is one state of it; nothing was changed"}
}

// sorted words what keeps a source from being copied.
func sorted(err error) error {
	var link *linkError
	if errors.As(err, &link) {
		return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "source_holds_link",
			Sentence: "a copy of a link would lead back to the source: " + link.rel + " is no plain file; nothing was changed"}
	}
	return err
}
