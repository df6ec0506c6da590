package sessiondb

import "gatewayd/internal/sqlite"

// schemaFolds is version 2: what compaction and the reading of long histories need.
//
// messages_shown leads to each visible row that is not at its first place: folded rows, and copies. An ordinary append
// does not touch it. Together with the live rows by id it gives a page of a history at the cost of that page.
const schemaFolds = `
CREATE INDEX messages_shown ON messages(session_id, origin_id, active) WHERE compacted = 1 OR (active = 1 AND origin_id <> id);

CREATE TABLE folds(
  summary    INTEGER PRIMARY KEY NOT NULL, -- the first row of the summary, which its copies have as origin
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  absorbed   TEXT NOT NULL,                -- uids of the rows it stands for
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX folds_session ON folds(session_id);

CREATE TABLE compactions(
  session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  failures   INTEGER NOT NULL DEFAULT 0,
  strikes    INTEGER NOT NULL DEFAULT 0,
  retry_at   INTEGER,
  last_error TEXT NOT NULL DEFAULT '',
  exchanges  TEXT NOT NULL DEFAULT '{}',
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

func addFolds(tx *sqlite.Tx) error { return tx.Script(schemaFolds) }
