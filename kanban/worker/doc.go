// Package worker turns a claimed card into a process: which program (a lane), with which words, which
// environment, where, and what its end means.
//
// It promises that nothing a card says is ever read as a shell word or as an option: argv is a template whose
// elements are filled one by one and never split again, free text goes after `--`, behind `--flag=` or, as all
// presets do, by file and environment. A worker's environment is built from an allow-list, never inherited. A
// scratch workspace is removed only when it lies strictly inside the board's own directory, by its name and
// after all links are resolved.
//
// Launcher is the seam to other places than this machine; Local, over the reaper's keepers, is the one there is.
package worker
