// Package pgtest gives a package's tests a PostgreSQL server of their own.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestX(t *testing.T) {
//		db := pgtest.New(t) // a fresh database on the package's server
//		conn, err := pgx.Connect(ctx, db.DSN(pgtest.Admin))
//	}
//
// The server is started with the first database that is asked for: one cluster a test
// binary, on a Unix socket in a short temporary folder and on a random port of the
// loopback, fsync on, passwords demanded over the loopback. It runs as the user
// postgres or nobody when the tests run as root, since a server refuses to be root. It
// is stopped when the tests end, and by the kernel when their process dies.
//
// Without server programs the tests are skipped with one sentence that begins
// "PostgreSQL tests skipped:"; LOOPX_MIGRATE_REQUIRE_PG=1 makes that a failure.
// LOOPX_MIGRATE_PG_BIN names a folder of server programs to use instead of those found.
//
// [Proxy] stands between a client and the server and loses what a test wants lost.
package pgtest
