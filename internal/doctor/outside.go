package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
)

// lookModel asks who answers: the offline model is no mistake, and a server that is silent is none of the home's.
func lookModel(ctx context.Context, h *House) []Check {
	m, err := h.Model(ctx)
	switch {
	case err != nil:
		c := wrong(Fail, err)
		if c.Remedy == "" {
			c.Remedy = "start the model's server, or correct model.base_url and its key"
		}
		return []Check{c}
	case m.URL == "":
		return []Check{bad(Warn, "set model.base_url and model.name", "%s", m.How)}
	case m.Asked && !m.Listed:
		return []Check{bad(Warn, "correct model.name; "+m.URL+" lists the names that it knows", "%s answers, and does not list the model %s", m.URL, m.Name)}
	}
	return []Check{good("%s: %s%s%s", m.Name, m.How, answered(m), window(m))}
}

func answered(m Model) string {
	if !m.Asked {
		return ""
	}
	return fmt.Sprintf("; answered in %v", m.Took.Round(time.Millisecond))
}

func window(m Model) string {
	if m.Window == 0 {
		return "; its context length is not known yet"
	}
	if m.From == "" {
		return fmt.Sprintf("; context length %d", m.Window)
	}
	return fmt.Sprintf("; context length %d (%s)", m.Window, m.From)
}

func lookLanes(_ context.Context, h *House) (checks []Check) {
	lanes, err := h.Lanes()
	if err != nil {
		return []Check{wrong(Fail, err)}
	}
	for _, lane := range lanes {
		c := good("%s", lane.Preset)
		if lane.Missing != "" {
			c = bad(Fail, lane.MissingRemedy, "%s", lane.Missing)
		}
		c.Subject = lane.Name
		checks = append(checks, c)
	}
	return unless(checks, Check{State: Skipped, Says: "none is configured; cards without one go to the built-in worker"})
}

// peers are the programs that bring a SQLite of their own to our boards, and how they tell which.
var peers = []struct {
	name string
	argv []string
}{
	{"sqlite3", []string{"--version"}},
	{"python3", []string{"-c", "import sqlite3; print(sqlite3.sqlite_version)"}},
}

// lookSQLite finds programs on the PATH that can harm a database in WAL: of Hermes workers above all, which run on python3.
func lookSQLite(ctx context.Context, h *House) (checks []Check) {
	for _, p := range peers {
		path := onPath(h.Loaded.Environ.Get("PATH"), p.name)
		if path == "" {
			continue
		}
		said, err := h.Run(ctx, append([]string{path}, p.argv...)...)
		release, _, _ := strings.Cut(strings.TrimSpace(said), " ")
		switch {
		case err != nil:
			checks = append(checks, bad(Unknown, "", "%s does not say its version: %v", path, err))
		case sqlite.LosesCommits(release):
			checks = append(checks, bad(Warn, "upgrade it to 3.51.3; until then let it not write beside the daemon, or run PRAGMA wal_autocheckpoint=0 in it first",
				"%s is SQLite %s, which can lose a commit when it restarts a write-ahead log", path, release))
		default:
			checks = append(checks, good("%s is SQLite %s", path, release))
		}
	}
	return unless(checks, good("no other SQLite is on the PATH"))
}

func onPath(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if full := filepath.Join(dir, name); filepath.IsAbs(full) && executable(full) {
			return full
		}
	}
	return ""
}
