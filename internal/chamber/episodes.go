package chamber

import (
	"context"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// The parts that most episodes have. Slack is how many descriptors of the store a process may have at once above its
// usual number.
var (
	gatewayPart  = Part{Role: "gateway"}
	terminalPart = Part{Role: "terminal"}
	plainPart    = Part{Role: "plain"}
	readerPart   = Part{Role: "reader", Works: "read", Lasting: true, Slack: 6}
	churnPart    = Part{Role: "churn", Works: "cycled", Usual: 6, Slack: 2, With: visits} // a visit has two connections at most, of three descriptors
	indexerPart  = Part{Role: "indexer", Works: "ready"}
	boardPart    = Part{Role: "board"}
	watcherPart  = Part{Role: "watcher", Works: "cycled", With: visits}
)

// visits leave the writers something of the machine: an open costs more than a write, and thirty a second are plenty.
var visits = Params{Rest: 20 * time.Millisecond}

// verbs are what a person types beside a daemon, and what the program of SQLite answers.
var verbs = [][]string{
	{"sessions", "list"},
	{"sessions", "search", "fox"},
	{"status"},
	{"doctor"},
	{shell, "-cmd", ".timeout 60000", "state.db", "SELECT count(*) FROM messages"},
	{shell, "-cmd", ".timeout 60000", "kanban.db", "SELECT count(*) FROM tasks"},
}

// strangers are programs that share the files as plain SQLite.
var strangers = []Part{
	{Role: "py-store-writer", Name: "pystore"},
	{Role: "py-store-reader", Name: "pyread", Works: "read"},
	{Role: "py-board-writer", Name: "pyboard"},
	{Role: "py-board-reader", Name: "pywatch", Works: "read"},
}

func cast(more ...Part) []Part {
	return append([]Part{gatewayPart, terminalPart, readerPart, churnPart}, more...)
}

// Shared are the episodes that leave a sound store behind and run one after the other on the same one, with a reader
// that lives through all of them.
func Shared() []Episode {
	stray := Part{Role: "gateway", Name: "straying", With: Params{Stray: 3}}
	return []Episode{
		{Name: "baseline", Cast: cast(plainPart, indexerPart, boardPart, watcherPart), Verbs: verbs},
		{Name: "index_rebuilds", Cast: rebuilders(), Faults: []Fault{said("rebuild", "rebuilding"), kill9("rebuild"), said("other", "rebuilt"), said("rebuild", "rebuilt")}},
		{Name: "strangers", Cast: cast(append(strangers, boardPart)...), Verbs: verbs, Faults: []Fault{kill9("pystore"), kill9("gateway"), kill9("pyboard"), sigterm("pystore")}},
		{Name: "kill_writer", Cast: cast(indexerPart, boardPart), Faults: []Fault{kill9("gateway"), kill9("board"), kill9("gateway"), kill9("terminal"), kill9("gateway")}},
		{Name: "sigterm", Cast: cast(boardPart), Faults: []Fault{sigterm("gateway"), sigterm("terminal"), sigterm("board"), sigterm("gateway")}},
		{Name: "lock_cancellation", Cast: cast(stray), Faults: []Fault{seen("straying", "strayed", 5), seen("churn", "cycled", 10)}},
		{Name: "chmod_flips", Cast: []Part{gatewayPart, readerPart, plainPart}, Faults: []Fault{flipModes()}},
		{Name: "index_damage", Cast: cast(indexerPart, Part{Role: "damage", Works: "searched"}), Faults: []Fault{said("damage", "damaged"), seen("damage", "searched", 2)}},
		{Name: "lease_stop", Cast: leaseHolders(), Faults: []Fault{freeze("lease", Part{Role: "thief", Works: "ready"})}},
		{Name: "kill_all", Cast: cast(append(strangers, plainPart, indexerPart, boardPart, watcherPart)...), Faults: []Fault{killAll()}},
	}
}

// The two kinds of database, by the names of their files.
const (
	storeFile = "state.db"
	boardFile = "kanban.db"
)

// Losses are the episodes in which the files go away under open handles. Each needs a store of its own.
func Losses() []Episode {
	wal := []string{WAL}
	board := func(name, what string, do func(context.Context, *Stage) error) Episode {
		return Episode{
			Name: name, Modes: wal, Deletes: true, Cast: clerks(), Faults: []Fault{lose(what, sqlite.ReasonLost, do), captured(boardFile)},
		}
	}
	loss := func(name, what string, modes []string, reason sqlite.Reason, do func(context.Context, *Stage) error) Episode {
		return Episode{
			Name: name, Modes: modes, Deletes: true, Parts: true, Cast: healers(),
			Faults: []Fault{lose(what, reason, do), captured(storeFile)}, After: []Fault{salvaged()},
		}
	}
	return []Episode{
		loss("wal_unlinked", "-wal unlinked", wal, sqlite.ReasonLost, unlink(storeFile, "-wal")),
		loss("shm_unlinked", "-shm unlinked", wal, sqlite.ReasonLost, unlink(storeFile, "-shm")),
		loss("wal_replaced", "-wal replaced", wal, sqlite.ReasonLost, supplant(storeFile, "-wal")),
		loss("store_replaced", "an older copy put in its place", nil, sqlite.ReasonReplaced, putBack("-wal", "-shm")),
		loss("main_replaced", "an older copy put in its place, its -wal left", wal, sqlite.ReasonReplaced, putBack()),
		board("board_wal_unlinked", "-wal of the board unlinked", unlink(boardFile, "-wal")),
		board("board_shm_unlinked", "-shm of the board unlinked", unlink(boardFile, "-shm")),
		board("board_wal_replaced", "-wal of the board replaced", supplant(boardFile, "-wal")),
		{Name: "shm_truncated", Modes: wal, Cast: healers(), Faults: []Fault{cutIndex()}},
	}
}

// healers are two processes that live through a loss, as the daemon does. Their leases are short, because a lease that
// was taken in the lost files is nobody's in the new ones.
func healers() []Part {
	with := Params{Heal: true, TTL: time.Second}
	return []Part{{Role: "gateway", With: with}, {Role: "gateway", Name: "second", With: with}}
}

// clerks are two processes that write one board and live through a loss. What the lost -wal held is written back into the
// board by the first of them that opens it again, so that nobody has to salvage anything.
func clerks() []Part {
	with := Params{Heal: true}
	return []Part{gatewayPart, {Role: "board", With: with}, {Role: "board", Name: "clerk", With: with}}
}

// Copies are backups beside writers, one of them killed on the way, and a restore, which is refused beside writers and
// brings back every row of a store that was damaged afterwards.
func Copies() []Episode {
	copier := Part{Role: "backup", Works: "copied"}
	return []Episode{
		{Name: "backups", Cast: []Part{gatewayPart, plainPart, copier}, Faults: []Fault{seen("backup", "copying", 1), kill9("backup"), seen("backup", "copied", 1)}},
		{
			Name: "restore", Cast: []Part{gatewayPart, {Role: "gateway", Name: "second"}},
			Faults: []Fault{answers(0, storeFile, "backup"), restore(1, "is open in process"), seen("gateway", "acked", 4)},
			After:  []Fault{answers(0, storeFile, "backup"), ruin(), restore(0, "")},
		},
	}
}

// Repairs are refused while somebody has the store open, change nothing of a sound one, and mend a damaged one without
// giving up a row.
func Repairs() []Episode {
	sound, held := answers(0, "nothing is wrong", "repair", "state"), answers(1, "is open in process", "repair", "state")
	return []Episode{{
		Name: "repair", Cast: []Part{gatewayPart, {Role: "gateway", Name: "second"}},
		Faults: []Fault{sound, ruin(), held, seen("gateway", "acked", 4), held},
		After:  []Fault{answers(0, "repaired", "repair", "state"), sound},
	}}
}

// Full is the episode for a small file system: it is filled up under the writers, and emptied again.
func Full() Episode {
	with := Params{Full: true, TTL: time.Second}
	return Episode{
		Name: "disk_full", Cast: []Part{{Role: "gateway", With: with}, {Role: "gateway", Name: "second", With: with}},
		Faults: []Fault{fillDisk(), fillDisk()},
	}
}

func rebuilders() []Part {
	return append(cast(), Part{Role: "rebuild", Works: "ready"}, Part{Role: "rebuild", Name: "other", Works: "ready"})
}

func leaseHolders() []Part {
	return append(cast(), Part{Role: "lease", Works: "ready", With: Params{TTL: 300 * time.Millisecond}, Error: "conflict"})
}

// Find gives the episode of a name.
func Find(name string) (Episode, bool) {
	all := slices.Concat(Shared(), Losses(), Copies(), Repairs())
	i := slices.IndexFunc(all, func(e Episode) bool { return e.Name == name })
	if i < 0 {
		return Episode{}, false
	}
	return all[i], true
}
