// Package interop tests this program against a real LoopX: the release that
// scripts/interop-install.sh installs, driven by its own command line. Everything
// else in this repository is tested with what LoopX once answered; here it answers now.
//
// The tests have the build tag interop and are run by make interop, which installs
// LoopX first, and beside it two earlier releases that write legacy files. LOOPX_MIGRATE_INTEROP names another folder that the script installed
// into. Each command of LoopX has a time limit, a private HOME and TMPDIR, and the
// background processes it leaves are ended with the tests. With -short the way back
// has five new commits in its first round instead of fifty.
//
// The two benchmarks compare the speed of both programs on one history in one run:
//
//	go test -tags interop -run '^$' -bench Interop -benchtime 1x -timeout 60m ./interop
package interop
