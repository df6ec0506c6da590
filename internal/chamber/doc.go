// Package chamber is the torture chamber of the store: real processes that share one state.db and one kanban.db, are
// really killed, and are then asked whether every acknowledged row is there exactly once.
//
//	Chamber ── one store, in one journal mode, over a row of episodes
//	  Part ──── one process of the program itself, `gatewayd selftest role NAME`, or a foreign one
//	  Fault ─── what is done to them or to the files, and the proof that it really happened
//	  Monitor ─ who holds a deleted file, and how many descriptors, every 20 ms
//	  Audit ─── what a fresh process finds in the files afterwards
//
// Episodes are a table (episodes.go), roles are a table (role.go), and one engine runs them (episode.go). A role tells
// what it does in lines of JSON on its output, and everything here waits for those lines: nothing sleeps and hopes. A
// writer keeps a ledger in a file of its own, an intention before each row and an acknowledgement after it, both synced,
// and the audit compares the ledgers with the rows.
//
// An episode that fails leaves no process behind, names its seed and how to run it again, and keeps its files. A fault
// without its proof fails the episode: a kill that hit nobody has shown nothing.
//
// It is driven by `gatewayd selftest --chaos` and by the tests in e2e, and by nobody else: it opens files beside the
// registry, which the daemon never does.
package chamber
