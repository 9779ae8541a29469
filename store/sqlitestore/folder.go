package sqlitestore

import (
	"os"
	"path/filepath"

	"github.com/loopx-project/loopx-migrate/authority"
	"github.com/loopx-project/loopx-migrate/internal/faultio"
)

// networkFileSystems are where a write-ahead log loses data without a message: its
// index is shared memory, which other hosts do not share. Types are statfs(2)'s.
var networkFileSystems = map[uint64]string{
	0x6969:     "NFS",
	0xff534d42: "SMB",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x01021997: "9p",
	0x65735546: "FUSE",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x73757245: "Coda",
	0x564c:     "NCP",
}

// makeFolder makes the folder of a database after checking the file system of the
// nearest folder that exists.
func makeFolder(folder string) error {
	if err := checkFileSystem(folder); err != nil {
		return err
	}
	return faultio.MkdirAll(folder, 0o700)
}

// CheckFolder refuses a folder on a network file system with ReasonFileSystem; of a
// folder that does not exist, the nearest one above it that does is looked at.
func CheckFolder(folder string) error {
	return answerAs("open", "", checkFileSystem(folder), unreadable)
}

func checkFileSystem(folder string) error {
	for {
		_, err := os.Stat(folder)
		if err == nil {
			break
		}
		parent := filepath.Dir(folder)
		if unlessAbsent(err) != nil || parent == folder {
			return err
		}
		folder = parent
	}
	kind, err := faultio.FSType(folder)
	if err != nil {
		return err
	}
	if name, network := networkFileSystems[kind&0xffffffff]; network {
		return refuse(authority.ClassFailed, authority.ReasonFileSystem,
			"the folder is on a "+name+" file system, where SQLite's write-ahead log is not safe").Field("file_system")
	}
	return nil
}
