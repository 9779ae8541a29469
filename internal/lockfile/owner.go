package lockfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

const (
	maxOwnerBytes = 64 << 10 // beyond any owner record: the token has at most 256 units
	maxTokenUnits = 256      // UTF-16, as JavaScript counts
	maxSafe       = 1<<53 - 1
	// unreadableAge is how old a lock without a readable owner must be before it
	// counts as abandoned: a young one may be between its creation and its write.
	unreadableAge = 10 * time.Second
	// unreadableToken stands in for the token of a lock that has none.
	unreadableToken = "__invalid_lock_reclaim__"
)

// owner is the content of a marker: {"pid":<int>,"token":"<uuid>"}, no newline.
type owner struct {
	PID   int64  `json:"pid"`
	Token string `json:"token"`
}

func (o owner) encode() ([]byte, error) { return json.Marshal(o) }

// parseOwner accepts what LoopX accepts: other keys are ignored, pid is any
// spelling of a safe integer. It decodes by hand since encoding/json would also
// take "PID" for "pid".
func parseOwner(text []byte) (owner, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return owner{}, false
	}
	// A missing key, null and a value of another type all fail to parse here.
	pid, err := strconv.ParseFloat(string(object["pid"]), 64)
	if err != nil || pid != math.Trunc(pid) || math.Abs(pid) > maxSafe {
		return owner{}, false
	}
	var token *string
	if json.Unmarshal(object["token"], &token) != nil || token == nil {
		return owner{}, false
	}
	if len(utf16.Encode([]rune(*token))) > maxTokenUnits || strings.TrimFunc(*token, isBlank) == "" {
		return owner{}, false
	}
	return owner{int64(pid), *token}, true
}

// isBlank is JavaScript's idea of white space: with U+FEFF and without U+0085.
func isBlank(r rune) bool { return r == '\uFEFF' || unicode.IsSpace(r) && r != '\u0085' }

func (o owner) alive() bool {
	if o.PID <= 0 || o.PID > math.MaxInt32 {
		return false
	}
	err := syscall.Kill(int(o.PID), 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// sighting is a lock file as it stood at one moment. The file stays open, so that
// its inode cannot be given to another one that would then look the same.
type sighting struct {
	path     string
	file     *os.File
	info     fs.FileInfo
	owner    owner
	readable bool
}

// sight looks at the lock file at path. fs.ErrNotExist when there is none.
func sight(path string) (*sighting, error) {
	// Without O_NONBLOCK a named pipe in the lock's place would hold us for ever.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, ErrUnsafe
	}
	if err != nil {
		return nil, err
	}
	s := &sighting{path: path, file: file}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

func (s *sighting) read() error {
	var err error
	if s.info, err = s.file.Stat(); err != nil {
		return err
	}
	if !s.info.Mode().IsRegular() {
		return ErrUnsafe
	}
	text, err := io.ReadAll(io.LimitReader(s.file, maxOwnerBytes+1))
	if err != nil {
		return err
	}
	if len(text) <= maxOwnerBytes {
		s.owner, s.readable = parseOwner(text)
	}
	return nil
}

func (s *sighting) close() error { return s.file.Close() }

// stale is LoopX's rule: a dead owner, or none that can be read for ten seconds.
func (s *sighting) stale() bool {
	if s.readable {
		return !s.owner.alive()
	}
	return time.Since(s.info.ModTime()) >= unreadableAge
}

// same fails with errNotOurs unless path still is this very file with this owner.
func (s *sighting) same() error {
	now, err := sight(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errNotOurs
	}
	if err != nil {
		return err
	}
	if !os.SameFile(s.info, now.info) || s.readable != now.readable || s.owner != now.owner {
		err = errNotOurs
	}
	return errors.Join(err, now.close())
}

func (s *sighting) claimToken() string {
	if s.readable {
		return s.owner.Token
	}
	return unreadableToken
}

func claimPath(lockPath, token string) string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf("%s.claim.%s", lockPath, hex.EncodeToString(sum[:]))
}

// tryFlock takes an flock without waiting.
func tryFlock(fd uintptr) error {
	for {
		err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errTaken
		case err != nil:
			return os.NewSyscallError("flock", err)
		}
		return nil
	}
}
