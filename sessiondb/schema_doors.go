package sessiondb

import "gatewayd/internal/sqlite"

// schemaDoors is version 4: what the HTTP API promises to remember beyond rows. A run is a turn that nobody has to wait for, with the
// events that it showed; a response is an answer that a client may name later; and a request that costs something is known again by its
// key.
//
// All of it is bounded and passes (see KeepRuns and KeepResponses): what was said is in messages. Sessions take theirs with them. A run has
// one end: ended_at is set once, in the transaction of its last event.
const schemaDoors = `
ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT '';      -- id of the key that asked for it
ALTER TABLE runs ADD COLUMN uid TEXT NOT NULL DEFAULT '';        -- of the message that it answers
ALTER TABLE runs ADD COLUMN response TEXT;                       -- the response that it makes, if it does
ALTER TABLE runs ADD COLUMN model TEXT NOT NULL DEFAULT '';      -- as the client named it
ALTER TABLE runs ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0; -- newest of its events that were dropped for their number
CREATE INDEX runs_recent ON runs(created_at, id);
CREATE INDEX runs_session ON runs(session_id);

CREATE TABLE run_events(
  run_id     TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,           -- 1 for the first; what a watcher that comes back names
  name       TEXT NOT NULL,
  body       TEXT NOT NULL,              -- JSON
  created_at INTEGER NOT NULL,
  PRIMARY KEY(run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE responses(
  id           TEXT PRIMARY KEY NOT NULL,
  session_id   TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  owner        TEXT NOT NULL DEFAULT '', -- id of the key that asked for it: to others it does not exist
  previous     TEXT,                     -- the response that it continues
  conversation TEXT,                     -- the name under which its client keeps several
  uid          TEXT NOT NULL DEFAULT '', -- of the message that it answers
  turn_id      TEXT,
  row_id       INTEGER,                  -- last row of its turn: where the next one goes on
  status       TEXT NOT NULL CHECK(status = 'queued' OR status = 'in_progress' OR status = 'completed' OR status = 'incomplete' OR status = 'failed' OR status = 'cancelled'),
  background   INTEGER NOT NULL DEFAULT 0 CHECK(background IN (0, 1)),
  request      TEXT NOT NULL DEFAULT '{}', -- JSON: what of the request an answer repeats
  input        TEXT NOT NULL DEFAULT '[]', -- JSON: its input items
  output       TEXT NOT NULL DEFAULT '[]', -- JSON: its output items
  result       TEXT NOT NULL DEFAULT '{}', -- JSON: usage, error, what is incomplete about it
  created_at   INTEGER NOT NULL,
  ended_at     INTEGER
) STRICT;
CREATE INDEX responses_recent ON responses(created_at, id);
CREATE INDEX responses_session ON responses(session_id);
CREATE INDEX responses_previous ON responses(previous) WHERE previous IS NOT NULL;

ALTER TABLE idempotency ADD COLUMN headers TEXT;                    -- JSON: what a replay repeats beside the body
ALTER TABLE idempotency ADD COLUMN session_id TEXT;                 -- where its turn is
ALTER TABLE idempotency ADD COLUMN uid TEXT;                        -- of the message that it stores
ALTER TABLE idempotency ADD COLUMN holder TEXT NOT NULL DEFAULT ''; -- the life of the daemon that works on it
`

func addDoors(tx *sqlite.Tx) error { return tx.Script(schemaDoors) }
