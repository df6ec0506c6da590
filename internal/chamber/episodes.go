package chamber

import (
	"slices"
	"time"
)

// The parts that most episodes have. Slack is how many descriptors of the store a process may have at once above the
// most it had in its first half second.
var (
	gatewayPart  = Part{Role: "gateway"}
	terminalPart = Part{Role: "terminal"}
	plainPart    = Part{Role: "plain"}
	readerPart   = Part{Role: "reader", Works: "read", Lasting: true, Slack: 6}
	churnPart    = Part{Role: "churn", Works: "cycled", Slack: 2}
	indexerPart  = Part{Role: "indexer", Works: "ready"}
	boardPart    = Part{Role: "board"}
	watcherPart  = Part{Role: "watcher", Works: "cycled"}
)

// verbs are what a person types beside a daemon, and what the program of SQLite answers.
var verbs = [][]string{
	{"sessions", "list"}, {"sessions", "search", "fox"}, {"status"}, {"doctor"},
	{shell, "-cmd", ".timeout 60000", "state.db", "SELECT count(*) FROM messages"}, {shell, "-cmd", ".timeout 60000", "kanban.db", "SELECT count(*) FROM tasks"},
}

// strangers are programs that share the files as plain SQLite.
var strangers = []Part{
	{Role: "py-store-writer", Name: "pystore"}, {Role: "py-store-reader", Name: "pyread", Works: "read"},
	{Role: "py-board-writer", Name: "pyboard"}, {Role: "py-board-reader", Name: "pywatch", Works: "read"},
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

func rebuilders() []Part {
	return append(cast(), Part{Role: "rebuild", Works: "ready"}, Part{Role: "rebuild", Name: "other", Works: "ready"})
}

func leaseHolders() []Part {
	return append(cast(), Part{Role: "lease", Works: "ready", With: Params{TTL: 300 * time.Millisecond}, Error: "conflict"})
}

// Find gives the episode of a name.
func Find(name string) (Episode, bool) {
	all := Shared()
	i := slices.IndexFunc(all, func(e Episode) bool { return e.Name == name })
	if i < 0 {
		return Episode{}, false
	}
	return all[i], true
}
