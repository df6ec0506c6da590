// Package config owns the settings: one typed struct, filled from built-in defaults, the file config.yaml in
// the home, the environment and flags, each later one winning over the earlier. It also owns the home itself:
// where it is, who holds it, and the API key in it.
//
// It promises:
//
//   - Nothing is ignored. An unknown key, a wrong type or a bad value is refused with its place and the
//     nearest right key, in the file and in the environment alike, because a misspelt setting that silently
//     does nothing is the commonest complaint about systems like this one. The one exception is the crash
//     grace of boards, where a bad environment value means 30 seconds and one warning.
//   - Every value knows where it came from (Loaded.Origins).
//   - A Secret never prints: not by fmt, slog, JSON, YAML or an error of ours.
//   - Load only reads. Directories and keys are made by PrepareHome, when the daemon starts.
//
// This is the only package that reads the environment of the process; others are handed an Environ.
package config
