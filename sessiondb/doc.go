// Package sessiondb owns state.db: what was said, who may write it, what it cost, and how it is found again.
//
// It promises
//
//   - a row that was acknowledged is there exactly once, through kill -9 at any point (one transaction per batch,
//     every row with a uid made before it);
//   - a conversation has one writer: each append proves its turn lease inside its own transaction;
//   - a compaction folds rows away in one transaction, on the rows that were seen or not at all, and a row that comes
//     meanwhile goes on behind it; a turn is taken back whole;
//   - a page of a history costs what is on it, however long the history is;
//   - a damaged search index never costs a row: it is marked stale, searches scan instead, and it is rebuilt in
//     small steps beside the running daemon;
//   - opening a file that is already current writes nothing, and opening one that is not ours changes nothing.
//
// While a file is in quarantine, what is said goes to a spool beside it (state.db.spool), synced and not acknowledged, and
// comes back once, by uid and in its order, when the store takes rows again. What was committed to a -wal that was lost
// comes back from its capture. A file of a newer gatewayd is read and never written.
//
// Rows are never deleted by what happens to a conversation. Two flags say what a row is:
//
//	active 1, compacted 0   live: sent to the model, shown, found
//	active 0, compacted 1   folded away: not sent, shown on request, found
//	active 0, compacted 0   superseded: kept, hidden everywhere
//	active 1, compacted 1   impossible (CHECK)
//
// id is the order of messages, origin_id the first row of a logical message (its place on a screen, and what keeps
// a copy from being found twice), uid its name for exactly-once. Time is integer microseconds since 1970, UTC, and
// is never used for order.
//
// A Store is safe for concurrent use. It never imports the registry: it is one of the handles the registry counts.
package sessiondb
