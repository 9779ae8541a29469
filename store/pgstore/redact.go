package pgstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/loopx-project/loopx-migrate/authority/canonical"
)

// ourMark starts every message that functions of ours raise.
const ourMark = "loopx_migrate_"

// serverError is what may be told of an error of the server: its code, the objects it
// names, and its message when the message is ours. Messages of the server quote values.
type serverError struct {
	code, table, column, constraint, said string
}

// Error says code and place.
func (e *serverError) Error() string {
	var b strings.Builder
	b.WriteString("the server answered SQLSTATE ")
	b.WriteString(e.code)
	for _, part := range []struct{ name, value string }{{"table", e.table}, {"column", e.column}, {"constraint", e.constraint}, {"message", e.said}} {
		if part.value != "" {
			b.WriteString(", " + part.name + " " + part.value)
		}
	}
	return b.String()
}

// driverError is what may be told of any other error of the driver: which kind it was.
type driverError struct {
	said  string
	cause error // one of the errors that say nothing of the connection, or nil
}

// Error says the kind.
func (e *driverError) Error() string { return e.said }

// Unwrap returns the cause when it is harmless: the end of a context, an errno.
func (e *driverError) Unwrap() error { return e.cause }

// connectError marks an error of getting a connection: nothing was sent on it.
type connectError struct{ err error }

// Error is never shown; see redacted.
func (e *connectError) Error() string { return e.err.Error() }

// Unwrap returns the driver's error.
func (e *connectError) Unwrap() error { return e.err }

// redacted is an error without anything that a connection string, a password or a row
// could have put into its text. Errors of this tool's own pass.
func redacted(err error) error {
	if err == nil {
		return nil
	}
	if many, joined := err.(interface{ Unwrap() []error }); joined {
		var told []error
		for _, one := range many.Unwrap() {
			told = append(told, redacted(one))
		}
		return errors.Join(told...)
	}
	if ours(err) {
		return err
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		told := &serverError{code: server.Code, table: server.TableName, column: server.ColumnName, constraint: server.ConstraintName}
		if strings.HasPrefix(server.Message, ourMark) {
			told.said = server.Message
		}
		return told
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return &driverError{known.Error(), known}
		}
	}
	return &driverError{kindOf(err), errnoOf(err)}
}

// ours reports whether an error was made here and holds nothing of the driver's.
func ours(err error) bool {
	var depth *canonical.DepthError
	var syntax *canonical.SyntaxError
	var server *serverError
	var driver *driverError
	return errors.As(err, &depth) || errors.As(err, &syntax) || errors.As(err, &server) || errors.As(err, &driver) ||
		errors.Is(err, canonical.ErrNumberRange) || errors.Is(err, fs.ErrClosed) ||
		errors.Is(err, errWire) || errors.Is(err, errRolledBack)
}

func kindOf(err error) string {
	var parse *pgconn.ParseConfigError
	var timeout net.Error
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &parse):
		return "the connection string cannot be understood"
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was lost"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "the server did not answer in time"
	}
	var connecting *connectError
	if errors.As(err, &connecting) {
		return "no connection could be made"
	}
	return "the driver failed"
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return nil
}

// codeOf is the SQLSTATE of a server's error, empty for any other.
func codeOf(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// SQLSTATE codes that are told apart.
const (
	codeUndefinedTable    = "42P01"
	codeUndefinedFunction = "42883"
	codeInvalidSchema     = "3F000"
	codeUniqueViolation   = "23505"
)
