package kanban

import (
	"context"
	"errors"
	"os"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// checkedBytes bounds what is checked when a board is opened: SQLite reads the whole file for it. Larger boards are checked
// when they are backed up.
const checkedBytes = 4 << 20

// mend looks a board over that was just opened by the process that serves it. Indexes that do not agree with their tables
// hide cards from every list and lose no row: they are made anew, on a copy that is kept before, and only when nobody else
// has the file open. Any other damage is refused. A content that was found whole before is not read again.
func (b *Board) mend(ctx context.Context, opts Options, init *initLock, note wholeNote) error {
	if !opts.Heal || note.holds() || sizeOf(opts.Path) > checkedBytes {
		return nil
	}
	faults, indexOnly, err := b.file.IndexFaults(ctx)
	switch {
	case err == nil && len(faults) == 0:
		note.keep()
		return nil
	case err != nil && sqlite.ClassOf(err) == sqlite.Busy:
		return nil // locked is not damaged
	case err != nil:
		return b.explain(errors.Join(err, b.file.Close()))
	}
	fault := &problem.Error{Kind: problem.Damaged, What: "is damaged: " + faults[0]}
	if err := b.file.Close(); err != nil {
		return b.explain(err)
	}
	if !indexOnly {
		return corruptBoard(opts.Slug, opts.Path, fault)
	}
	report, err := sqlite.Repair(ctx, RepairOptions(opts.Slug, opts.Path, opts.Log))
	if problem.Is(err, problem.Busy) {
		fault.Remedy = "stop what has it open and it is mended by itself: " + err.Error()
		return corruptBoard(opts.Slug, opts.Path, fault)
	}
	if err != nil {
		return b.explain(err)
	}
	b.log.Warn("indexes of a board did not agree with its cards and were made anew", "path", opts.Path, "error", faults[0], "copy", report.Backup)
	b.file, err = sqlite.Open(ctx, b.fileOptions(opts, init))
	return b.explain(err)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
