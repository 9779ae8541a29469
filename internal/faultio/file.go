package faultio

import (
	"errors"
	"io/fs"
	"os"
)

// File is an open file whose changes pass the seam. It wraps an os.File and does
// not embed it: io.Copy would find os.File.ReadFrom and write past the seam.
type File struct{ file *os.File }

// Write writes all of data or fails. It is one effect, whatever its length.
func (f *File) Write(data []byte) (int, error) {
	return performWrite(f.file.Name(), data, f.file.Write)
}

// WriteString is Write of text.
func (f *File) WriteString(text string) (int, error) { return f.Write([]byte(text)) }

// WriteAt writes all of data at a place counted in bytes from the start.
func (f *File) WriteAt(data []byte, offset int64) (int, error) {
	return performWrite(f.file.Name(), data, func(part []byte) (int, error) {
		return f.file.WriteAt(part, offset)
	})
}

// Sync makes the content durable, not the name: see SyncDir.
func (f *File) Sync() error { return perform(opSync, f.file.Name(), f.file.Sync) }

// Truncate cuts or extends to size bytes; the position stays.
func (f *File) Truncate(size int64) error {
	return perform(opTruncate, f.file.Name(), func() error { return f.file.Truncate(size) })
}

// Chmod sets the permission bits.
func (f *File) Chmod(perm fs.FileMode) error {
	return perform(opChmod, f.file.Name(), func() error { return f.file.Chmod(perm) })
}

// Read is os.File.Read.
func (f *File) Read(data []byte) (int, error) { return f.file.Read(data) }

// ReadAt is os.File.ReadAt.
func (f *File) ReadAt(data []byte, offset int64) (int, error) { return f.file.ReadAt(data, offset) }

// Seek is os.File.Seek.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }

// Stat is os.File.Stat.
func (f *File) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Name returns the path the file was opened by.
func (f *File) Name() string { return f.file.Name() }

// Fd returns the descriptor, for flock and the like. It is valid until Close.
func (f *File) Fd() uintptr { return f.file.Fd() }

// Close is os.File.Close. It is not counted: it makes nothing durable.
func (f *File) Close() error { return f.file.Close() }

func closeAfter(file *os.File, err error) error { return errors.Join(err, file.Close()) }
