// Package sqlite is the only door to SQLite. It owns every connection the process has, and with them the rules
// that keep an acknowledged row: one writer connection owned by one goroutine, group commit with a savepoint per
// operation, a sync level that outlasts a power cut, asserted by reading it back, the journal decision, the identity of the file and its
// sidecars, and what happens when memory under a mapping goes away.
//
// A File is one database on disk. It promises:
//
//   - Write returns nil only when the operation is durable. An operation that failed left nothing behind and did
//     not cost its neighbours in the same transaction anything.
//   - Opening creates, truncates, converts and renames nothing unless Options.Create said so and nothing was there. An
//     on-disk WAL database is never switched to another journal but by SetJournalMode.
//   - A file that was replaced, overwritten or whose WAL was unlinked is noticed before the next transaction, is
//     never written again through this handle, and is not checkpointed when the handle closes. What only the handle
//     still has of it is copied into a capture beside the database before it closes, and no other handle is opened
//     beside files that somebody holds and the disk has no more.
//   - Maintenance goes through one gate, which refuses a handle in quarantine. What replaces or mends a file has it
//     alone, keeps what was there, and leaves the old content or the new when it is killed.
//   - A truncated -shm or an out-of-memory inside SQLite costs the connection, not the process.
//
// Connections are closed without a checkpoint (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE) and checkpoints are run
// explicitly: closing a last connection otherwise deletes the -wal by path, under the feet of peers whose locks
// were lost. So -wal and -shm stay on disk after a stop, and that is normal.
//
// Every goroutine that touches a connection goes through guard (fault.go), which turns memory faults into errors;
// other panics are bugs and go on. The transaction is written in batch.go, how its frames reach the -wal in
// walfile.go, what a failed COMMIT means in fate.go, the lock waits in backoff.go, the decision about the journal in
// journal.go and version.go, and what must be true of the files before and while they are open in header.go, identity.go and
// retired.go. Why a handle is in quarantine is decided in reason.go; what is kept of a lost generation is in rescue.go and
// capture.go, how it comes back in replay.go and reinstate.go. The list of maintenance and its gate are in maintain.go, having a
// file alone in alone.go; repair.go, backup.go, restore.go, vacuum.go and journalchange.go do the work.
//
// The library's locks are OFD locks: opening and closing one of the three files elsewhere in the process does not
// cancel them. Never build with the tags sqlite3_flock or sqlite3_dotlk, whose locks stock SQLite cannot see.
package sqlite
