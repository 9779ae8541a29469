package lockfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

const (
	kernelSuffix   = ".lock"
	kernelInterval = 5 * time.Millisecond
	holderSchema   = "file_lock_holder_v0"
	// pythonTime is how LoopX's Python writes an instant, always in UTC.
	pythonTime = "2006-01-02T15:04:05.000000Z"
	// agentID stands where LoopX's writers put the agent they act for.
	agentID = "loopx-migrate"
)

// Holder is the content of a kernel lock's file: one line of JSON with sorted keys
// (file_lock_holder_v0 of LoopX's file_lock.py). It only informs; the flock decides.
type Holder struct {
	AcquiredAt string `json:"acquired_at"` // UTC, microseconds
	AgentID    string `json:"agent_id"`
	Host       string `json:"host,omitempty"` // newer LoopX only
	LockID     string `json:"lock_id"`        // 16 hexadecimal digits
	Operation  string `json:"operation"`
	PID        int    `json:"pid"`
	Policy     string `json:"policy"`
	ReleasedAt string `json:"released_at,omitempty"` // absent while held, and after a crash
	Schema     string `json:"schema_version"`
}

// AcquireKernel takes the kernel lock of target, waiting at most wait (LoopX: 5 s;
// 0 asks once). The holder's record gets operation, a short lower-case label. The
// lock file is never removed or replaced, since another process may wait on its
// inode. Errors are those of AcquireMarker.
func AcquireKernel(ctx context.Context, target string, wait time.Duration, operation string) (*Lock, error) {
	path := target + kernelSuffix
	return waiter{
		family: Kernel, target: target, wait: wait, interval: kernelInterval,
		attempt: func() (*Lock, error) { return tryKernel(path, operation) },
		holder:  func() int { return kernelHolder(path) },
	}.acquire(ctx)
}

func tryKernel(path, operation string) (*Lock, error) {
	file, err := openKernel(path)
	if err != nil {
		return nil, err
	}
	lock, err := lockKernel(file, operation)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return lock, nil
}

func openKernel(path string) (*faultio.File, error) {
	// Without O_NONBLOCK a named pipe in the lock's place would hold us for ever.
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := faultio.OpenFile(path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = faultio.OpenFile(path, flags|os.O_CREATE, 0o600)
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, ErrUnsafe
	}
	return file, err
}

func lockKernel(file *faultio.File, operation string) (*Lock, error) {
	if err := onlyName(file); err != nil {
		return nil, err
	}
	if err := tryFlock(file.Fd()); err != nil {
		return nil, err
	}
	// While we waited the file may have been replaced by somebody who knows no rules;
	// an flock on a file without a name excludes nobody.
	if err := onlyName(file); err != nil {
		return nil, errors.Join(err, unlock(file))
	}
	previous, err := readHolder(file)
	if err != nil {
		return nil, errors.Join(err, unlock(file))
	}
	mine := newHolder(operation)
	if err := mine.write(file); err != nil {
		return nil, errors.Join(err, unlock(file))
	}
	return &Lock{
		abandoned: previous.abandoned(),
		release:   func() error { return errors.Join(mine.sign(file), unlock(file), file.Close()) },
	}, nil
}

// onlyName fails with ErrUnsafe unless the file is a regular one with one name,
// and with errChanged when that name is another file's by now.
func onlyName(file *faultio.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrUnsafe
	}
	there, err := os.Lstat(file.Name())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, there) {
		return errChanged
	}
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink != 1 {
		return ErrUnsafe
	}
	return nil
}

// unlock gives the flock up at once. Closing alone would not: a child that is just
// being started holds a copy of the descriptor for a moment.
func unlock(file *faultio.File) error {
	return os.NewSyscallError("flock", unix.Flock(int(file.Fd()), unix.LOCK_UN))
}

func newHolder(operation string) *Holder {
	var id [8]byte
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(id[:])
	return &Holder{
		AcquiredAt: time.Now().UTC().Format(pythonTime), AgentID: agentID, LockID: hex.EncodeToString(id[:]),
		Operation: operation, PID: os.Getpid(), Policy: "mutation", Schema: holderSchema,
	}
}

// sign marks a clean end.
func (h *Holder) sign(file *faultio.File) error {
	h.ReleasedAt = time.Now().UTC().Format(pythonTime)
	return h.write(file)
}

func (h *Holder) write(file *faultio.File) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(append(text, '\n'), 0)
	return err
}

// abandoned returns the record of a holder that never said it was done.
func (h *Holder) abandoned() *Holder {
	if h == nil || h.ReleasedAt != "" {
		return nil
	}
	return h
}

// readHolder returns nil for anything that is not a holder's record: the content
// only informs, so a strange one hinders nobody.
func readHolder(file io.ReaderAt) (*Holder, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxOwnerBytes))
	if err != nil {
		return nil, err
	}
	var h Holder
	if json.Unmarshal(text, &h) != nil || h.Schema != holderSchema {
		return nil, nil
	}
	return &h, nil
}

// kernelHolder asks the kernel first: a process that takes the flock and writes no
// record is not the one whose record is left there.
func kernelHolder(path string) int {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	if pid := flockOwner(file); pid > 0 {
		return pid
	}
	if h, err := readHolder(file); err == nil && h.abandoned() != nil {
		return h.PID
	}
	return 0
}

// flockOwner finds the file in /proc/locks, whose lines read
//
//	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
//
// with process id, device (hexadecimal) and inode. 0 when it is not to be found.
func flockOwner(file *os.File) int {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	place := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range bytes.Lines(locks) {
		field := strings.Fields(string(line))
		if len(field) == 8 && field[1] == "FLOCK" && field[3] == "WRITE" && field[5] == place {
			pid, err := strconv.Atoi(field[4])
			if err == nil {
				return pid
			}
		}
	}
	return 0
}
