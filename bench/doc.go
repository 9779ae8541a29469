// Package bench measures the program as it is used against the targets of
// docs/performance.md. It holds benchmarks alone: they build the program, run its
// commands as processes of their own on disposable Goals, and compare what those
// cost with what SHA-256 over the same journal costs in the same run.
//
//	make bench
package bench
