package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/loopx-project/loopx-migrate/authority"
)

var _ authority.Auditor = (*Archive)(nil)

// Archive is an archive that is open for reading. Its methods may be called at the
// same time; each audit reads and proves the whole file, as it then is.
type Archive struct {
	content io.ReaderAt
	closer  io.Closer
	header  Header
}

// OpenArchive opens the archive at path and proves its first line. Its refusals are
// *LineError around *authority.Error: ClassMissing when nothing is there,
// ClassUnavailable when it cannot be read or is no regular file, ClassFailed when it
// is no archive; ReasonFormatUnsupported for a kind of store this tool does not know.
func OpenArchive(path string) (*Archive, error) {
	// Opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, unreadable("open", "", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable("open", "", err)
	}
	a := &Archive{content: file, closer: file}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return a, nil
}

// open proves the first line.
func (a *Archive) open() error {
	w := &walk{verb: "open", lines: a.lines()}
	err := w.takeHeader()
	a.header = w.header
	return err
}

// VerifyArchive proves the archive at path from its first byte to its last. Its
// refusals are those of OpenArchive and Audit.
func VerifyArchive(ctx context.Context, path string) (authority.Lineage, error) {
	seal, err := prove(ctx, path)
	return seal.Lineage, err
}

func prove(ctx context.Context, path string) (Seal, error) {
	archive, err := OpenArchive(path)
	if err != nil {
		return Seal{}, err
	}
	seal, err := archive.Prove(ctx)
	return seal, errors.Join(err, archive.Close())
}

// Header is the first line, which OpenArchive proved in itself; that the rows reach
// what it promises, only an audit shows.
func (a *Archive) Header() Header { return a.header }

// Close releases the file.
func (a *Archive) Close() error { return a.closer.Close() }

// Prove audits the whole archive and returns its seal.
func (a *Archive) Prove(ctx context.Context) (Seal, error) { return a.audit(ctx, nil, nil) }

// Audit proves every line: JSON, digests, the chain, exact members, LoopX's own
// spelling; cursors without gaps, operation ids without repetition, every delta
// replayed to the state the row claims, provider revisions recomputed where the kind
// of store determines them; the seal, and nothing behind it.
//
// A bookmark spares no work, since states can only be reached by replay from the
// beginning; it says which row must stand where, and rows up to it are not shown to
// visit. It may come from an audit of the store the archive was written from, or of
// another archive of that store: the row's revision, state and the logical digest up
// to it must be the same, or the refusal is ReasonRewritten.
//
// The lineage has the identity of the store the history was read from.
func (a *Archive) Audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (authority.Lineage, error) {
	seal, err := a.audit(ctx, from, visit)
	return seal.Lineage, err
}

func (a *Archive) audit(ctx context.Context, from *authority.Bookmark, visit func(authority.Row) error) (Seal, error) {
	w := newWalk(a, from, visit)
	if err := w.run(ctx); err != nil {
		return Seal{}, err
	}
	return Seal{Header: w.header, SHA256: w.digest, Lineage: w.lineage()}, nil
}

func (a *Archive) lines() *lineReader {
	return &lineReader{in: bufio.NewReaderSize(io.NewSectionReader(a.content, 0, math.MaxInt64), 64<<10)}
}

// lineReader cuts the file into lines and never holds more than one.
type lineReader struct {
	in     *bufio.Reader
	line   []byte
	number int   // of the line read last
	bytes  int64 // read so far
}

// next returns the next line without its line feed, valid until the next call, and
// io.EOF after the last. A defect is one of the line that number counts.
func (r *lineReader) next() ([]byte, error) {
	r.line = r.line[:0]
	r.number++
	for {
		piece, err := r.in.ReadSlice('\n')
		r.line = append(r.line, piece...)
		r.bytes += int64(len(piece))
		switch {
		case len(bytes.TrimSuffix(r.line, []byte{'\n'})) > maxLine:
			return nil, violation("", fmt.Sprintf("the line is longer than %d bytes", maxLine))
		case err == nil:
			return r.line[:len(r.line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.line) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, violation("", "the archive is cut short: the last line has no line feed")
		}
		return nil, err
	}
}
