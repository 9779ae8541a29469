package cutover

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ownerOf names the operating-system user that owns a path, as Principal does. A
// user without a name is known by number.
func ownerOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("this platform does not tell who owns a file")
	}
	uid := strconv.FormatUint(uint64(stat.Uid), 10)
	u, err := user.LookupId(uid)
	if err != nil {
		return "os:#" + uid, nil //nolint:nilerr // an unnamed owner is still an owner
	}
	return principalName(u), nil
}
