package cutover

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/sys/user"
)

// Kinds of principals, as prefixes of their names: an operating-system user by name, or
// by # and number where it has none; a role that a database server has authenticated.
const (
	principalUser = "os:"
	principalRole = "role:"
)

// Principal names the operating-system user of this process. Who that is says the
// kernel; the environment ($USER) is not asked, since it says what the caller likes.
func Principal() (string, error) { return userName(strconv.Itoa(os.Geteuid())), nil }

// RolePrincipal names a role that a database server has authenticated.
func RolePrincipal(role string) string { return principalRole + role }

// ownerOf names the operating-system user that owns a path, as Principal does.
func ownerOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("this platform does not tell who owns a file")
	}
	return userName(strconv.FormatUint(uint64(stat.Uid), 10)), nil
}

// userName is the principal of a user id. A user without a name is known by number. The
// names are those of /etc/passwd, and not os/user's: without cgo that package takes $USER
// for the name of a process whose user id has none there, so that anybody could be the owner.
func userName(uid string) string {
	number, err := strconv.Atoi(uid)
	if err != nil {
		return principalUser + "#" + uid
	}
	u, err := user.LookupUid(number)
	if err != nil || u.Name == "" {
		return principalUser + "#" + uid
	}
	return principalUser + u.Name
}

var (
	roleShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$-]{0,62}$`) })
	uidShape  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`) })
)

// ParsePrincipal reads a principal as an operator writes it, os:NAME, os:#UID or
// role:NAME, and returns its one spelling: a user id that has a name is known by that
// name. A user that this host does not know is refused: a grant to a misspelt name
// would wait for whoever gets that name.
func ParsePrincipal(text string) (string, error) {
	if role, ok := strings.CutPrefix(text, principalRole); ok && roleShape().MatchString(role) {
		return text, nil
	}
	name, ok := strings.CutPrefix(text, principalUser)
	if !ok || name == "" {
		return "", refuse(KindUsage, "principal_invalid", "%q is no principal: give os:NAME, os:#UID or role:NAME; nothing was changed", text)
	}
	if uid, ok := strings.CutPrefix(name, "#"); ok {
		if number, err := strconv.ParseUint(uid, 10, 32); err != nil || !uidShape().MatchString(uid) || number == 1<<32-1 {
			return "", refuse(KindUsage, "principal_invalid", "%q is no user id; nothing was changed", text)
		}
		return userName(uid), nil
	}
	u, err := user.LookupUser(name)
	switch {
	case errors.Is(err, user.ErrNoPasswdEntries):
		return "", refuse(KindRefused, "principal_unknown", "this host knows no user %q; give its number as os:#UID; nothing was changed", name)
	case err != nil:
		return "", err
	}
	return userName(strconv.Itoa(u.Uid)), nil
}
