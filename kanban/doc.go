// Package kanban owns a board: one SQLite file of cards, links, comments, runs and events, and the directory that
// holds the boards. Every verb that changes a card is here, each in one IMMEDIATE transaction, so that the command
// line, the HTTP API, the dispatcher and a worker obey the same rules.
//
// What it promises:
//   - The file is Hermes' kanban.db in both directions. Columns, tables, statuses, event kinds and board.json keys that
//     this package does not know survive every write; what it adds of its own lives in tables prefixed gw_.
//   - A damaged, foreign or missing file is never recreated, truncated or repaired in passing. It is refused with
//     an error that names it.
//   - The fence of a running card is the id of its run: a worker of an older run is refused everything (ErrStaleRun).
//   - A card that a person takes from its worker goes when the worker has: what is written is a request to stop it (gw_stops),
//     which the dispatcher fulfils. No card may be claimed beside a living worker of an earlier run.
//   - A nil error means durable. An error for which Committed reports true means stored, but the file is suspect:
//     the verb must not be repeated.
//
// Times are epoch seconds, as in the file; 0 stands for NULL. Text that is NULL in the file is "" here and null in JSON.
// A Board is safe for concurrent use.
package kanban
