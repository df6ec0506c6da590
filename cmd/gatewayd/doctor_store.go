package main

import (
	"fmt"

	"gatewayd/config"
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
	return checks
}

func aboutCapture(c sessiondb.CaptureState) string {
	what := fmt.Sprintf("%s, %d MiB, of %s", c.Dir, c.Bytes>>20, when(c.At))
	if !c.Whole {
		what += "; the database itself was too large to copy"
	}
	return what
}
