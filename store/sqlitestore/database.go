package sqlitestore

import (
	"database/sql"
	"errors"
	"net/url"
)

// Database opens a database for a reader that brings its own statements and shares
// nothing with this store: a verifier. Nothing is written beside it: with a log it is read
// from a private copy, else as a file that does not change, so nobody may write to it
// meanwhile. release closes it and removes the copy. scratch is the folder for that,
// empty the system's.
func Database(path, scratch string) (db *sql.DB, release func() error, err error) {
	mark, err := look(path)
	if err != nil {
		return nil, nil, err
	}
	query, remove := "mode=ro&immutable=1", func() error { return nil }
	if mark.logged() {
		copied, err := copyDatabase(path, scratch)
		if err != nil {
			return nil, nil, err
		}
		path, query, remove = copied.database, "mode=rw", copied.remove
	}
	at := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}
	if db, err = sql.Open("sqlite", at.String()); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return db, func() error { return errors.Join(db.Close(), remove()) }, nil
}

// Memory opens an empty database in memory. It vanishes when it is closed, and each
// connection has one of its own.
func Memory() (*sql.DB, error) { return sql.Open("sqlite", ":memory:") }
