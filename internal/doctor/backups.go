package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/sqlite"
)

// late is how much older than its schedule a backup may be: one takes a while, and a daemon that was just started waits with it.
const late = time.Hour

func lookBackups(_ context.Context, h *House) (checks []Check) {
	every := h.Loaded.Backup.Every
	if h.Loaded.Backup.At != "" {
		every = 24 * time.Hour // at a time of day
	}
	if h.Round != "" {
		return []Check{bad(Fail, "mend what it says, then `gatewayd backup`", "%s", h.Round)}
	}
	copies, err := sqlite.CopiesIn(h.Backups)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Check{wrong(Fail, err)}
	}
	var oldest time.Time
	kept := false
	for _, db := range h.Databases {
		born, there := birth(db.Path)
		newest, found := copies.Scheduled(db.Path, db.Label)
		made := newest.Manifest.MadeAt
		kept = kept || found
		switch {
		case !there || every <= 0:
			continue
		case made.IsZero() && h.Now.Sub(born) > every+late:
			checks = append(checks, bad(Warn, "gatewayd backup", "there is no backup of %s", db.Label))
		case !made.IsZero() && h.Now.Sub(made) > every+late:
			checks = append(checks, bad(Warn, "keep the daemon running, or run `gatewayd backup`; `gatewayd logs --level warn` says if one failed",
				"the newest backup of %s is of %s, and one is due every %v", db.Label, made.Local().Format(time.DateTime), every))
		}
		if !made.IsZero() && (oldest.IsZero() || made.Before(oldest)) {
			oldest = made
		}
	}
	switch {
	case every <= 0 && !kept:
		return []Check{bad(Warn, "gatewayd backup, or set backup.every", "there is none, and backup.every is 0")}
	case every <= 0:
		return []Check{good("there are some in %s; none is made by itself, because backup.every is 0", h.Backups)}
	case oldest.IsZero():
		return unless(checks, good("none is due yet; one is made every %v into %s", every, h.Backups))
	}
	return unless(checks, good("every database has one since %s, in %s", oldest.Local().Format(time.DateTime), h.Backups))
}

func resolved(path string) string {
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	return path
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}

func lookBoards(_ context.Context, h *House) []Check {
	if h.Listing != nil {
		c := wrong(Fail, h.Listing)
		c.Remedy = cmp.Or(c.Remedy, "check owner and permissions of "+h.Loaded.Kanban.Root)
		return []Check{c}
	}
	n := 0
	for _, db := range h.Databases {
		if db.Board {
			n++
		}
	}
	return []Check{good("%d in %s", n, h.Loaded.Kanban.Root)}
}
