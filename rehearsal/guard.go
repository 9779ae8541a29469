package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/loopx-project/loopx-migrate/cutover"
)

// Whereabouts is which database a connection ends in, whatever name it was reached by.
type Whereabouts struct {
	System   string // PostgreSQL's system identifier, of the cluster and all its copies
	Database string // name and oid within it
	Tenant   string // where one is meant, else empty
}

// Guard knows what must never be worked on: the source and everything that is
// production, by path, by inode and by the identity of a database.
type Guard struct {
	// Paths are files and folders of production, the source's among them.
	Paths []string
	// Servers are databases of production.
	Servers []Whereabouts

	real   []string // resolved paths; nil until they were looked at
	inodes map[inode]string
}

type inode struct{ device, number uint64 }

// GuardError refuses a rehearsal that would work on production.
type GuardError struct {
	Way    string // path, nested_path, inode, ancestor_inode, overlay, database
	Detail string
}

// Error says which way.
func (e *GuardError) Error() string { return e.Detail }

func (e *GuardError) refusal() error {
	return &cutover.Refusal{Kind: cutover.KindRefused, Reason: "rehearsal_on_production", Err: e,
		Sentence: "a copy would be production itself (" + e.Way + "): " + e.Detail + "; nothing was changed"}
}

// see resolves every path and takes the inodes of what is there, files below folders
// included. What does not exist yet keeps its path.
func (g *Guard) see() error {
	if g.inodes != nil {
		return nil
	}
	inodes := map[inode]string{}
	for _, path := range g.Paths {
		real, err := resolved(path)
		if err != nil {
			return err
		}
		g.real = append(g.real, real)
		if err := filepath.WalkDir(real, seeInto(inodes)); err != nil {
			return err
		}
	}
	g.inodes = inodes
	return nil
}

// seeInto takes the inode of what a walk meets, a link's own target included. What comes
// and goes while production works, and a link to nowhere, name nothing.
func seeInto(inodes map[inode]string) fs.WalkDirFunc {
	return func(at string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
			return nil
		}
		if err == nil {
			inodes[inodeOf(info)] = filepath.Base(at)
		}
		return err
	}
}

func inodeOf(info fs.FileInfo) inode {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{s.Dev, s.Ino}
	}
	return inode{}
}

// resolved follows every link of a path, as far as it exists.
func resolved(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if at == filepath.Dir(at) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// Folder refuses a folder to work in that is production, lies in it, or has it among the
// folders above under another name, as a bind mount has, or that an overlay writes through
// to it.
func (g *Guard) Folder(path string) error {
	if err := g.see(); err != nil {
		return err
	}
	real, err := resolved(path)
	if err != nil {
		return err
	}
	if err := g.place(real); err != nil {
		return err
	}
	beneath, err := upper(real)
	if err != nil || beneath == "" {
		return err
	}
	if g.place(beneath) != nil {
		return (&GuardError{"overlay", "an overlay writes what is written there into it"}).refusal()
	}
	return nil
}

// place refuses a resolved path.
func (g *Guard) place(real string) error {
	for _, production := range g.real {
		switch {
		case production == real:
			return (&GuardError{"path", "the folder to work in is the same"}).refusal()
		case within(real, production):
			return (&GuardError{"nested_path", "the folder to work in lies inside it"}).refusal()
		}
	}
	for at := real; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			if name, same := g.inodes[inodeOf(info)]; same {
				return (&GuardError{"ancestor_inode", fmt.Sprintf("a folder above is %s under another name", name)}).refusal()
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// Copy refuses a copy that shares a path or a file with production. It looks at every
// file of the copy, and at every folder above it.
func (g *Guard) Copy(dir string) error {
	if err := g.Folder(dir); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if name, same := g.inodes[inodeOf(info)]; same {
			return (&GuardError{"inode", fmt.Sprintf("%s of a copy is %s of production under another name", filepath.Base(at), name)}).refusal()
		}
		return nil
	})
}

// Output refuses a file to be written inside production.
func (g *Guard) Output(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil {
		if err := g.see(); err != nil {
			return err
		}
		if name, same := g.inodes[inodeOf(info)]; same {
			return (&GuardError{"inode", "the file to write is " + name + " of production"}).refusal()
		}
	}
	return g.Folder(filepath.Dir(path))
}

// Server refuses a database that production is in. Its tenants share tables, roles and
// functions, and one of them may not be named: the whole database is production.
func (g *Guard) Server(at Whereabouts) error {
	for _, production := range g.Servers {
		if production.System == at.System && production.Database == at.Database {
			return (&GuardError{"database", "the server given for copies is the same database, by its system identifier"}).refusal()
		}
	}
	return nil
}

func within(path, folder string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// Locate asks a server where a connection ends.
type Locate func(ctx context.Context, server string) (Whereabouts, error)
