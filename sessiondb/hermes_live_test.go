package sessiondb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatewayd/internal/peer"
)

// pythonWriter says pairs as the original does: stock SQLite in WAL, a transaction for each pair, checkpoints in between.
const pythonWriter = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
c.execute("PRAGMA journal_mode=WAL"); c.execute("PRAGMA wal_autocheckpoint=20")
n = 0
while True:
    c.execute("BEGIN IMMEDIATE")
    for role in ("user", "assistant"):
        c.execute("INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', ?, ?, ?)", (role, "%s %d " % (role, n) + "x" * 500, 1.7e9 + n))
    c.execute("COMMIT")
    print(n, flush=True)
    n += 1
    if sys.stdin.readline() == "": break
`

// While a Python process writes, each import brings whole pairs, everything that was committed before it, and nothing twice;
// after the process was killed, what it left in the -wal comes too, and nothing is made beside the file.
func TestImportBesideALivePythonWriter(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here: an import beside a live writer is NOT tested")
	}
	path := hermesFile(t, 11)
	hermesDo(t, path, `DROP TRIGGER messages_fts_insert`, `INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9)`)
	writer := peer.Start(t, exec.Command(python, "-c", pythonWriter, path))
	next := func() (n int64) {
		n, err := strconv.ParseInt(writer.Next(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s, _ := testStore(t)
	next()
	for range 4 {
		for range 25 {
			writer.Say("")
		}
		acked := int64(-1)
		for range 12 { // it goes on with the other half while the import runs
			acked = next()
		}
		bring(t, s, path)
		rows := number(t, s, `SELECT count(*) FROM messages`)
		if rows%2 != 0 || rows < 2*(acked+1) {
			t.Errorf("%d rows came; %d pairs were committed", rows, acked+1)
		}
		for range 13 {
			next()
		}
	}
	writer.Kill()
	os.Remove(path + "-shm")
	before, _ := filepath.Glob(path + "*")
	bring(t, s, path)
	if after, _ := filepath.Glob(path + "*"); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("beside the file: %v, before: %v", after, before)
	}
	equal(t, "rows, and different ones", fmt.Sprint(number(t, s, `SELECT count(*) FROM messages`), number(t, s, `SELECT count(DISTINCT content) FROM messages`)), "202 202")
	soundAfter(t, s)
}
