package sessiondb

import (
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/sqlite"
)

// bare is a foreign program's connection.
func bare(t testing.TB, path string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
