// Package e2e holds suites that run whole processes: the real program, real signals, real files. Each test starts
// the binary that people run, with a home of its own on a free port, and speaks to it as people do.
package e2e
