package sessiondb

import "gatewayd/internal/sqlite"

// schemaTurns is version 3: what has begun or was accepted and has not become rows yet, what a person was asked, and
// what the last request of a session carried.
const schemaTurns = `
ALTER TABLE sessions ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'; -- JSON: what a person chose for this session alone

CREATE TABLE turns( -- a turn that has begun and not ended: written with its user row, deleted with its last row
  session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  turn_id    TEXT NOT NULL,
  user_uid   TEXT NOT NULL,              -- of the row it answers
  source     TEXT NOT NULL,
  dir        TEXT NOT NULL DEFAULT '',
  detached   INTEGER NOT NULL DEFAULT 0 CHECK(detached IN (0, 1)), -- it goes on without its caller
  attempts   INTEGER NOT NULL DEFAULT 1, -- processes that have worked on it
  mark       TEXT NOT NULL DEFAULT '',   -- 'drain': a stopping daemon left it
  began_at   INTEGER NOT NULL,
  tried_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox( -- accepted messages that are no rows yet: deleted in the transaction that stores their row
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  uid        TEXT NOT NULL UNIQUE,       -- the row will have it
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  mode       TEXT NOT NULL CHECK(mode = 'turn' OR mode = 'steer'),
  source     TEXT NOT NULL,
  dir        TEXT NOT NULL DEFAULT '',
  content    TEXT NOT NULL,
  wire       TEXT,
  attempts   INTEGER NOT NULL DEFAULT 0, -- starts of a daemon that have tried to say it
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX inbox_session ON inbox(session_id, id);

CREATE TABLE approvals( -- what a person was asked before a tool had its effect
  id         TEXT PRIMARY KEY NOT NULL,
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  turn_id    TEXT NOT NULL,
  call_id    TEXT NOT NULL,
  tool       TEXT NOT NULL,
  effect     TEXT NOT NULL,              -- what would be done, as the person reads it
  reason     TEXT NOT NULL,              -- why it is asked
  rule       TEXT NOT NULL,              -- what a grant covers
  state      TEXT NOT NULL DEFAULT 'pending' CHECK(state = 'pending' OR state = 'approved' OR state = 'denied'),
  decision   TEXT,                       -- once, session, always, deny; timeout, restart, turn_ended
  decided_by TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  CHECK((state = 'pending') = (decided_at IS NULL))
) STRICT;
CREATE INDEX approvals_pending ON approvals(created_at) WHERE decided_at IS NULL;
CREATE INDEX approvals_session ON approvals(session_id, created_at);

CREATE TABLE grants( -- approvals that hold on: for a session, or, without one, for always
  session_id  TEXT NOT NULL DEFAULT '',
  rule        TEXT NOT NULL,
  approval_id TEXT NOT NULL DEFAULT '',
  created_at  INTEGER NOT NULL,
  PRIMARY KEY(session_id, rule)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests( -- the last answered request of a session: what its window holds, and what the next one is compared with
  session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  model      TEXT NOT NULL DEFAULT '',
  provider   TEXT NOT NULL DEFAULT '',
  prompt     INTEGER NOT NULL DEFAULT 0, -- tokens as the provider counted them
  completion INTEGER NOT NULL DEFAULT 0,
  row_id     INTEGER NOT NULL DEFAULT 0, -- newest row that it carried
  bytes      INTEGER NOT NULL DEFAULT 0,
  digests    BLOB,                       -- of its parts, in order
  at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

func addTurns(tx *sqlite.Tx) error { return tx.Script(schemaTurns) }
