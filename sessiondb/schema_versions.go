package sessiondb

import "gatewayd/internal/sqlite"

// schemaVersions is version 5: a session's version says that rows of it which were there before are not the same any more. It is drawn and
// not counted, so that two histories of one file (a copy that was brought back) never have the same. It is the file's own doing, so that
// nobody who writes rows can forget it, whichever program it is. Rows that are only added do not change it: they are seen by their ids, and
// an append pays nothing.
const schemaVersions = `
ALTER TABLE sessions ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER messages_changed AFTER UPDATE ON messages BEGIN
  UPDATE sessions SET version = random() WHERE id IN (OLD.session_id, NEW.session_id);
END;
CREATE TRIGGER messages_removed AFTER DELETE ON messages WHEN OLD.active = 1 BEGIN
  UPDATE sessions SET version = random() WHERE id = OLD.session_id;
END;
`

func addVersions(tx *sqlite.Tx) error { return tx.Script(schemaVersions) }
