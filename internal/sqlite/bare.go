package sqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// OpenBare gives the library's own connection with the same settings and none of this package around it. It is
// the yardstick of benchmarks and a foreign peer for tests, nothing else.
func OpenBare(path string) (*sqlite3.Conn, error) {
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open bare connection: %w", err)
	}
	_, noCkpt := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
	err = errors.Join(noCkpt, fts5.Register(db), db.BusyTimeout(busyTimeout),
		db.Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
