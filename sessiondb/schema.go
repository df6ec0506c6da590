package sessiondb

import "math/rand/v2"

// schemaVersion is what user_version holds. A file with a greater one belongs to a newer gatewayd.
const schemaVersion = 5

// SchemaVersion is the newest schema that this program writes. It reads a newer one, and brings an older one up to it.
const SchemaVersion int64 = schemaVersion

// applicationMark are the upper sixteen bits of application_id ("gw"): a foreign database is never taken for an empty
// one. The lower ones are drawn when the file is made, so that another store copied over an open one is noticed; the
// first releases wrote the same ("sd") into each.
const applicationMark = 0x6777

// ours tells a store by its application_id.
func ours(id int64) bool { return id>>16 == applicationMark }

// newApplicationID draws one.
func newApplicationID() int64 { return applicationMark<<16 | rand.Int64N(1<<16) }

// schemaTables is version 1. STRICT keeps a foreign writer from planting text where a time belongs. A CHECK spells out
// more than two values: for an IN of three SQLite builds a temporary table each time it checks, 4 µs of an append.
//
// messages has two indexes only: each one costs a page of WAL per appended row. messages_by_session gives the live
// rows of a session in id order, its folded rows the same way, and counts without touching the table. (messages_long
// holds the few rows that a search index takes the beginning of; the others do not touch it.)
const schemaTables = `
CREATE TABLE prompts(
  hash       TEXT PRIMARY KEY NOT NULL,
  body       TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions(
  id            TEXT PRIMARY KEY NOT NULL,
  key           TEXT,
  source        TEXT NOT NULL DEFAULT '',
  title         TEXT NOT NULL DEFAULT '',
  model         TEXT NOT NULL DEFAULT '',
  prompt_hash   TEXT REFERENCES prompts(hash),
  parent        TEXT REFERENCES sessions(id) ON DELETE SET NULL,
  cwd           TEXT NOT NULL DEFAULT '',
  opened_at     INTEGER NOT NULL,
  ended_at      INTEGER,
  end_reason    TEXT,
  hidden        INTEGER NOT NULL DEFAULT 0 CHECK(hidden IN (0, 1)),
  archived      INTEGER NOT NULL DEFAULT 0 CHECK(archived BETWEEN 0 AND 2), -- 1 by a person, 2 for its age
  pinned        INTEGER NOT NULL DEFAULT 0 CHECK(pinned IN (0, 1)),
  message_count INTEGER NOT NULL DEFAULT 0,
  rewind_count  INTEGER NOT NULL DEFAULT 0,
  last_active   INTEGER NOT NULL,
  preview       TEXT NOT NULL DEFAULT '',
  CHECK((ended_at IS NULL) = (end_reason IS NULL))
) STRICT;
CREATE INDEX sessions_recent ON sessions(last_active, id);
CREATE INDEX sessions_parent ON sessions(parent) WHERE parent IS NOT NULL;

CREATE TABLE messages(
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  uid           TEXT NOT NULL UNIQUE,
  session_id    TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  turn_id       TEXT,
  origin_id     INTEGER NOT NULL,
  role          TEXT NOT NULL CHECK(role = 'user' OR role = 'assistant' OR role = 'tool' OR role = 'system'),
  content       TEXT NOT NULL,
  wire          TEXT,
  tool_calls    TEXT,
  tool_call_id  TEXT,
  tool_name     TEXT,
  effect        TEXT,
  finish_reason TEXT,
  reasoning     TEXT,
  kind          TEXT,
  active        INTEGER NOT NULL DEFAULT 1 CHECK(active IN (0, 1)),
  compacted     INTEGER NOT NULL DEFAULT 0 CHECK(compacted IN (0, 1)),
  created_at    INTEGER NOT NULL,
  CHECK(NOT (active = 1 AND compacted = 1))
) STRICT;
CREATE INDEX messages_by_session ON messages(session_id, active, compacted);
CREATE INDEX messages_long ON messages(session_id) WHERE octet_length(content) > 16384;

CREATE TABLE usage(
  session_id  TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  model       TEXT NOT NULL,
  provider    TEXT NOT NULL,
  task        TEXT NOT NULL DEFAULT '',
  calls       INTEGER NOT NULL DEFAULT 0,
  prompt      INTEGER NOT NULL DEFAULT 0,
  completion  INTEGER NOT NULL DEFAULT 0,
  cached      INTEGER NOT NULL DEFAULT 0,
  cache_write INTEGER NOT NULL DEFAULT 0,
  reasoning   INTEGER NOT NULL DEFAULT 0,
  last_ref    TEXT NOT NULL,
  first_at    INTEGER NOT NULL,
  last_at     INTEGER NOT NULL,
  PRIMARY KEY(session_id, model, provider, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases(
  session_id  TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  kind        TEXT NOT NULL CHECK(kind IN ('turn', 'compaction')),
  token       TEXT NOT NULL,
  boot        TEXT NOT NULL,
  pid         INTEGER NOT NULL,
  start       INTEGER NOT NULL,
  pidns       TEXT NOT NULL,
  label       TEXT NOT NULL DEFAULT '',
  acquired_at INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY(session_id, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs(
  id         TEXT PRIMARY KEY NOT NULL,
  session_id TEXT REFERENCES sessions(id) ON DELETE CASCADE,
  turn_id    TEXT,
  status     TEXT NOT NULL,
  request    TEXT NOT NULL DEFAULT '',
  result     TEXT,
  error      TEXT,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at   INTEGER
) STRICT;
CREATE INDEX runs_open ON runs(created_at) WHERE ended_at IS NULL;

CREATE TABLE idempotency(
  scope      TEXT NOT NULL,
  key        TEXT NOT NULL,
  request    TEXT NOT NULL,
  status     INTEGER,
  response   TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY(scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency(expires_at);

CREATE TABLE deliveries(
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  uid          TEXT NOT NULL UNIQUE,
  session_id   TEXT REFERENCES sessions(id) ON DELETE CASCADE,
  channel      TEXT NOT NULL,
  target       TEXT NOT NULL,
  payload      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'pending',
  attempts     INTEGER NOT NULL DEFAULT 0,
  last_error   TEXT,
  next_at      INTEGER,
  created_at   INTEGER NOT NULL,
  delivered_at INTEGER
) STRICT;
CREATE INDEX deliveries_due ON deliveries(next_at) WHERE delivered_at IS NULL;

CREATE TABLE routes(
  key        TEXT PRIMARY KEY NOT NULL,
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  generation INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX routes_session ON routes(session_id);

CREATE TABLE meta(
  k TEXT PRIMARY KEY NOT NULL,
  v ANY
) STRICT, WITHOUT ROWID;
`
