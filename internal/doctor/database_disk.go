package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/volume"
)

// largeWAL is a log that nobody has emptied for long: every start and every reader pays for it.
const largeWAL = 50 << 20

func lookSize(_ context.Context, v *visit) []Check {
	g := v.glance
	says := fmt.Sprintf("%s, %d pages of %d bytes, %d of them free", size(g.Bytes), g.Pages, g.PageSize, g.Free)
	if g.Bytes > largeFile {
		return []Check{bad(Warn, v.smaller(), "%s: above a gigabyte copies, repairs and checks take minutes", says)}
	}
	return []Check{good("%s", says)}
}

func (v *visit) smaller() string {
	if v.Board {
		return "archive and purge cards that are done"
	}
	return "gatewayd sessions prune"
}

// lookWAL offers a checkpoint only for a file that nobody holds; the fix itself looks again, and fails closed.
func lookWAL(_ context.Context, v *visit) []Check {
	if v.glance.WAL <= largeWAL {
		return []Check{good("%s", size(v.glance.WAL))}
	}
	c := bad(Warn, "stop whatever reads it for long; while nobody has it open, `gatewayd doctor --fix` empties it", "the write-ahead log is %s: it is not emptied", size(v.glance.WAL))
	c.Fix = func(ctx context.Context) (string, error) {
		freed, err := sqlite.CheckpointAlone(ctx, v.Path, v.Label)
		return fmt.Sprintf("%s were written into the database", size(freed)), err
	}
	return []Check{c}
}

func lookJournal(_ context.Context, v *visit) []Check {
	g := v.glance
	reason, remedy := volume.OfType(g.FSType).NoWAL(g.FSType)
	switch {
	case g.Journal == "":
		return []Check{bad(Fail, sqlite.RepairRemedy(v.Label), "its header does not say how it is journalled")}
	case g.Journal == "wal" && reason != "":
		return []Check{bad(Warn, remedy+"; to change the file: `gatewayd database set-journal-mode delete "+v.named()+"`", "journal mode wal on %s: %s", g.FSType, reason)}
	case g.Journal == "wal":
		return []Check{good("journal mode wal, synchronous FULL, on %s", g.FSType)}
	}
	return []Check{good("journal mode %s, synchronous EXTRA, on %s", g.Journal, g.FSType)}
}

// named is the database as the verbs call it.
func (v *visit) named() string {
	if slug, board := strings.CutPrefix(v.Label, "board "); board {
		return "board " + slug
	}
	return "state"
}

func lookHolders(_ context.Context, v *visit) (checks []Check) {
	if v.absent || v.lost != nil {
		return nil
	}
	holders, err := sqlite.Holders(v.Path)
	if err != nil {
		return []Check{wrong(Unknown, err)}
	}
	var who []string
	for _, h := range holders {
		switch {
		case h.PID == sqlite.UnknownPID:
			return []Check{bad(Unknown, "run doctor as root", "who has it open cannot be looked at: %v", h.Err)}
		case h.Lost:
			checks = append(checks, bad(Fail, "stop that process, then look for rows that it wrote: `gatewayd sessions salvage`",
				"%v writes into a file that lies here no more: what it says is stored, nobody else sees", h))
		}
		who = append(who, h.String())
	}
	if len(who) == 0 {
		return []Check{good("no process has it open")}
	}
	return unless(checks, good("%d %s it open: %s", len(who), haveWord(len(who)), strings.Join(who, ", ")))
}

func haveWord(n int) string {
	if n == 1 {
		return "process has"
	}
	return "processes have"
}

// lookPages tells damage that costs rows.
func lookPages(_ context.Context, v *visit) []Check {
	remedy := sqlite.RepairRemedy(v.Label)
	switch {
	case v.beyond != "":
		return v.notCopied()
	case v.broken != nil:
		p, ok := errors.AsType[*problem.Error](v.broken)
		if !ok {
			return []Check{bad(Fail, remedy, "%s cannot be checked: %v", v.Path, v.broken)}
		}
		bare := *p
		bare.Thing, bare.Fate, bare.Remedy = v.Path, "", ""
		return []Check{bad(Fail, remedy, "%s", bare.Error())}
	case len(v.faults.Pages) > 0:
		return []Check{bad(Fail, remedy, "%s is damaged: %s%s", v.Path, v.faults.Pages[0], more(len(v.faults.Pages)))}
	}
	return []Check{good("whole")}
}

func more(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n-1)
}

func lookRepairs(_ context.Context, v *visit) []Check {
	if v.absent || v.lost != nil {
		return nil
	}
	tried, err := sqlite.RepairsTried(v.Path)
	switch {
	case err != nil:
		return []Check{wrong(Unknown, err)}
	case tried.Blocked:
		return []Check{bad(Fail, sqlite.PutBack+"; to have it tried once more remove "+tried.Ledger, "a repair was tried %d times without success and is not tried again", tried.Times)}
	case tried.Times > 0:
		return []Check{bad(Warn, sqlite.RepairRemedy(v.Label), "a repair failed on %s", tried.Last.Local().Format("2006-01-02 15:04"))}
	}
	return []Check{good("none has failed")}
}
