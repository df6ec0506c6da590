package main

import (
	"fmt"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// checkBeside looks at what lies beside state.db: rows that wait for it, and captures of logs that it lost.
func checkBeside(cfg config.Config) []check {
	var checks []check
	h := sessiondb.Beside(resolved(storePath(cfg)))
	if h.Detail != "" {
		checks = append(checks, check{Name: "state.db spool", State: "failed", Detail: h.Detail, Remedy: "check owner and permissions of " + h.Spool.Path})
	}
	if h.Spool.Rows > 0 {
		checks = append(checks, warning("state.db spool", "start gatewayd, or run `gatewayd sessions salvage spool`",
			"%d rows that the store could not take wait in %s", h.Spool.Rows, h.Spool.Path))
	}
	if h.Spool.Kept > 0 {
		checks = append(checks, warning("state.db spool", "`gatewayd sessions salvage spool` tries them again and says why it cannot",
			"%d batches could not be stored and are kept in %s", h.Spool.Kept, h.Spool.Path))
	}
	for _, c := range h.Captures {
		if !c.Salvaged {
			checks = append(checks, warning("state.db capture", "`gatewayd sessions salvage` shows what it holds", "%s", aboutCapture(c)))
		}
	}
	return append(checks, checkUnfinished("state.db", storePath(cfg))...)
}

// checkCaptures looks at what a board lost and nobody wrote back: that is a person's work, and the log says it once.
func checkCaptures(name, path string) []check {
	var checks []check
	captures, err := sqlite.Captures(path)
	if err != nil {
		return []check{failed(name+" capture", err)}
	}
	for _, c := range captures {
		if !c.Salvaged() {
			checks = append(checks, warning(name+" capture", "look for cards that are missing in a copy of the database in it, enter them again, and move it away",
				"%s holds what the board had when its -wal was lost, of %s", c.Dir, when(c.Manifest.CapturedAt)))
		}
	}
	return append(checks, checkUnfinished(name, path)...)
}

// checkUnfinished looks for captures whose process was killed: nothing but a person finds these.
func checkUnfinished(name, path string) []check {
	dirs, err := sqlite.Unfinished(path)
	if err != nil {
		return []check{failed(name+" capture", err)}
	}
	var checks []check
	for _, dir := range dirs {
		checks = append(checks, warning(name+" capture", "keep it: its -wal, on a copy of the database beside it, may hold rows that are nowhere else",
			"%s is being made, or its process was killed before it was whole", dir))
	}
	return checks
}

func aboutCapture(c sessiondb.CaptureState) string {
	what := fmt.Sprintf("%s, %d MiB, of %s", c.Dir, c.Bytes>>20, when(c.At))
	if !c.Whole {
		what += "; the database itself was too large to copy"
	}
	return what
}
