package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// known reports that the copy told what the file holds.
func (v *visit) known() bool {
	return v.copied != nil && v.broken == nil && v.content == nil && v.foreign() == ""
}

// unknown is for looks whose ground is missing: said once, by the looks before them.
func (v *visit) unknown() []Check {
	if v.content != nil {
		return []Check{wrong(Unknown, v.content)}
	}
	return v.notCopied()
}

// lookIndexes tells damage that costs no row, and search indexes that are out of use or late.
func lookIndexes(_ context.Context, v *visit) (checks []Check) {
	if v.copied == nil || v.broken != nil || v.foreign() != "" {
		return v.notCopied()
	}
	remedy := "start the daemon: it makes them anew beside its work, and no row is lost"
	if len(v.faults.Indexes) > 0 {
		checks = append(checks, bad(Warn, remedy, "only an index is damaged: %s%s", v.faults.Indexes[0], more(len(v.faults.Indexes))))
	}
	for _, what := range v.compared() {
		checks = append(checks, bad(Warn, remedy, "%s", what))
	}
	var names []string
	for _, ix := range v.store.Indexes {
		names = append(names, ix.Name)
		switch {
		case ix.Stale:
			checks = append(checks, bad(Warn, remedy, "search index %s is out of use until it is built anew; searches scan", ix.Name))
		case ix.Behind > indexBehind:
			checks = append(checks, bad(Warn, "start the daemon: it catches up by itself", "search index %s is %d rows behind; searches scan those", ix.Name, ix.Behind))
		}
	}
	if v.Board || v.store.Version != v.store.Newest {
		return unless(checks, good("as their tables"))
	}
	if !v.store.Trigram {
		checks = append(checks, bad(Warn, "run the gatewayd that wrote it", "its trigram tokenizer is missing: text without blanks is not found by its parts"))
	}
	return unless(checks, good("%s up to date, FTS5 with unicode61 and trigram", strings.Join(names, ", ")))
}

// compared are the search indexes whose contents are not those of the rows.
func (v *visit) compared() (wrong []string) {
	if len(v.store.Indexes) == 0 || len(v.faults.Indexes)+len(v.faults.Pages) > 0 {
		return nil
	}
	err := v.copied.Try(func(tx *sqlite.Tx) error {
		wrong = sessiondb.ProbeIndexes(tx)
		return nil
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// indexBehind is a lag that an indexer at work does not have.
const indexBehind = 5000

func lookSchema(_ context.Context, v *visit) []Check {
	if !v.known() {
		return v.unknown()
	}
	lacks := v.board.Missing
	if !v.Board {
		lacks = v.store.Missing
	}
	switch s := v.store; {
	case !v.Board && s.Version > s.Newest:
		return []Check{bad(Warn, "run the newer gatewayd that wrote it", "version %d is newer than this program's %d: it is only read", s.Version, s.Newest)}
	case !v.Board && s.Version < s.Newest:
		return []Check{bad(Warn, "start the daemon: it brings it up to date and keeps a copy", "version %d, this program writes %d", s.Version, s.Newest)}
	case len(lacks) > 0 && v.Board:
		return []Check{bad(Warn, "the next open adds what is missing, and keeps what it does not know", "of an older program, without %s%s", lacks[0], more(len(lacks)))}
	case len(lacks) > 0:
		return []Check{bad(Fail, sqlite.PutBack, "version %d, but without %s%s: another program changed it", s.Version, lacks[0], more(len(lacks)))}
	case v.Board:
		return []Check{good("up to date")}
	}
	return []Check{good("version %d", v.store.Version)}
}

func lookRows(_ context.Context, v *visit) []Check {
	switch {
	case !v.known():
		return v.notCopied()
	case v.Board:
		return []Check{good("%d cards, %d runs", v.board.Tasks, v.board.Runs)}
	}
	return []Check{good("%d messages in %d sessions", v.store.Messages, v.store.Sessions)}
}

// ahead is how far clocks of one machine's programs may differ.
const ahead = 2 * time.Minute

// lookNewest finds a clock that went back since the newest row was written.
func lookNewest(_ context.Context, v *visit) []Check {
	if !v.known() {
		return v.notCopied()
	}
	last := v.store.Last
	if v.Board {
		last = v.board.Last
	}
	switch {
	case last.IsZero():
		return []Check{good("none yet")}
	case last.Sub(v.house.Now) > ahead:
		return []Check{bad(Warn, "set the clock (timedatectl set-ntp true): what is written now sorts before older rows", "the newest row is of %s, which is still to come: the clock went back", last.Local().Format(time.DateTime))}
	}
	return []Check{good("%s", last.Local().Format(time.DateTime))}
}

// lookWrite writes to the copy what a turn or a worker would.
func lookWrite(_ context.Context, v *visit) []Check {
	if !v.known() || len(v.faults.Pages) > 0 {
		return v.notCopied()
	}
	if v.Board && len(v.board.Missing) > 0 || !v.Board && v.store.Version != v.store.Newest {
		return []Check{{State: Skipped, Says: "not tried: its schema is of another program"}}
	}
	try := sessiondb.ProbeWrite
	if v.Board {
		try = kanban.ProbeWrite
	}
	if err := v.copied.Try(try); err != nil {
		return []Check{bad(Fail, sqlite.RepairRemedy(v.Label), "a row cannot be written to a copy of it: %v", err)}
	}
	return []Check{good("a row was written to a copy of it and taken back")}
}

// lookSpool finds rows that state.db could not take.
func lookSpool(_ context.Context, v *visit) (checks []Check) {
	if v.Board {
		return nil
	}
	h := sessiondb.Beside(resolved(v.Path))
	if h.Detail != "" {
		checks = append(checks, bad(Fail, "check owner and permissions of "+h.Spool.Path, "%s", h.Detail))
	}
	if h.Spool.Rows > 0 {
		checks = append(checks, bad(Warn, "start gatewayd, or run `gatewayd sessions salvage spool`", "%d rows that the store could not take wait in %s", h.Spool.Rows, h.Spool.Path))
	}
	if h.Spool.Kept > 0 {
		checks = append(checks, bad(Warn, "`gatewayd sessions salvage spool` tries them again and says why it cannot", "%d batches could not be stored and are kept in %s", h.Spool.Kept, h.Spool.Path))
	}
	return unless(checks, good("empty"))
}

// lookCaptures finds what was kept of a loss or of damage, and nobody has looked at since.
func lookCaptures(_ context.Context, v *visit) (checks []Check) {
	if v.Board {
		checks = boardCaptures(v.Path)
	} else {
		checks = storeCaptures(resolved(v.Path))
	}
	unfinished, err := sqlite.Unfinished(v.Path)
	if err != nil {
		checks = append(checks, wrong(Unknown, err))
	}
	for _, dir := range unfinished {
		checks = append(checks, bad(Warn, "keep it: its -wal, on a copy of the database beside it, may hold rows that are nowhere else",
			"%s is being made, or its process was killed before it was whole", dir))
	}
	if copies, _ := filepath.Glob(v.Path + ".corrupt.*.bak"); len(copies) > 0 {
		checks = append(checks, bad(Warn, "when the database is well and nothing is missed, remove them", "%d copies of a damaged file are kept, the first is %s", len(copies), copies[0]))
	}
	return unless(checks, good("nothing was lost"))
}

func storeCaptures(path string) (checks []Check) {
	for _, c := range sessiondb.Beside(path).Captures {
		if c.Salvaged {
			continue
		}
		what := fmt.Sprintf("%s, %d MiB, of %s", c.Dir, c.Bytes>>20, c.At.Local().Format(time.DateTime))
		if !c.Whole {
			what += "; the database itself was too large to copy"
		}
		checks = append(checks, bad(Warn, "`gatewayd sessions salvage` shows what it holds", "%s", what))
	}
	return checks
}

func boardCaptures(path string) (checks []Check) {
	captures, err := sqlite.Captures(path)
	if err != nil {
		return []Check{wrong(Unknown, err)}
	}
	for _, c := range captures {
		if !c.Salvaged() {
			checks = append(checks, bad(Warn, "look for cards that are missing in a copy of the database in it, enter them again, and move it away",
				"%s holds what the board had when its -wal was lost, of %s", c.Dir, c.Manifest.CapturedAt.Local().Format(time.DateTime)))
		}
	}
	return checks
}
