package sqlite

import (
	"errors"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// watchedWAL counts what reaches the library's file.
type watchedWAL struct {
	vfs.File
	writes, syncs int
	synced        int   // writes before the last sync
	fail          error // of the next write
}

func (w *watchedWAL) WriteAt(p []byte, off int64) (int, error) {
	w.writes++
	if err := w.fail; err != nil {
		w.fail = nil
		return 0, err
	}
	return w.File.WriteAt(p, off)
}

func (w *watchedWAL) Sync(flags vfs.SyncFlag) error {
	w.syncs++
	w.synced = w.writes
	return w.File.Sync(flags)
}

func watchWAL(t *testing.T, f *File) *watchedWAL {
	t.Helper()
	w := new(watchedWAL)
	mustWrite(t, f, Op{Label: "watch -wal", Do: func(tx *Tx) error {
		wal := tx.wal.(*walFile)
		w.File, wal.File = wal.File, w
		return nil
	}})
	return w
}

func TestACommitWritesItsFramesInOneCallAndSyncsOnce(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("first")) // writes and syncs the header of the -wal too
	w := watchWAL(t, f)
	mustWrite(t, f, insert("second"))
	if w.writes != 1 || w.syncs != 1 || w.synced != 1 {
		t.Errorf("%d writes, %d syncs, the last after %d writes", w.writes, w.syncs, w.synced)
	}
	if n := count(t, f); n != 2 {
		t.Errorf("another connection reads %d rows", n)
	}
}

func TestAWALThatCannotBeWrittenFailsTheCommitAsAWriteDoes(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	w := watchWAL(t, f)
	w.fail = errors.New("disk on fire")
	op := insert("a")
	err := f.Write(t.Context(), op)
	if !errors.Is(err, sqlite3.IOERR_WRITE) || ClassOf(err) != IO {
		t.Errorf("class %s: %v", ClassOf(err), err)
	}
	if n := count(t, f); n != 0 {
		t.Errorf("%d rows of a commit that failed", n)
	}
	mustWrite(t, f, op)
	if n := count(t, f); n != 1 {
		t.Errorf("%d rows after the next try", n)
	}
}

// memory is a file of bytes.
type memory struct {
	vfs.File
	data []byte
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.data = append(m.data, make([]byte, max(0, int(off)+len(p)-len(m.data)))...)
	return copy(m.data[off:], p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return copy(p, m.data[off:]), nil }
func (m *memory) Size() (int64, error)                    { return int64(len(m.data)), nil }
func (m *memory) Truncate(n int64) error                  { m.data = m.data[:n]; return nil }

func TestWhatIsHeldBackIsSeenByWhateverAsks(t *testing.T) {
	under := &memory{}
	f := &walFile{File: under, committing: true}
	f.WriteAt([]byte("frame one,"), 0)
	f.WriteAt([]byte(" frame two"), 10)
	if len(under.data) != 0 {
		t.Errorf("%q was not held back", under.data)
	}
	p := make([]byte, 9)
	if f.ReadAt(p, 11); string(p) != "frame two" {
		t.Errorf("read %q", p)
	}
	f.WriteAt([]byte("FRAME"), 0) // as SQLite does when it writes a page of its transaction a second time
	f.WriteAt([]byte("FRAME"), 11)
	if n, _ := f.Size(); n != 20 || string(under.data) != "FRAME one, FRAME two" {
		t.Errorf("%d bytes, %q", n, under.data)
	}
	f.WriteAt([]byte("beyond"), 20)
	f.Truncate(20)
	if n, _ := f.Size(); n != 20 {
		t.Errorf("%d bytes after it was cut to 20", n)
	}
	f.WriteAt(make([]byte, walHeld), 20)
	if f.WriteAt([]byte("more"), 20+walHeld); len(under.data) != 20+walHeld {
		t.Errorf("%d bytes are held back", len(f.held))
	}
}

// A transaction that outgrows the page cache writes frames before its COMMIT. Once it is rolled back their place in the
// -wal belongs to whoever writes next, which may be another process.
func TestFramesOfARolledBackTransactionNeverLandOnThoseOfAPeer(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("ours"))
	if _, err := f.Checkpoint(t.Context()); err != nil { // so that the rollback reads nothing from the -wal
		t.Fatal(err)
	}
	undone := errors.New("undone")
	err := f.Write(t.Context(), Op{Label: "too much", Do: func(tx *Tx) error {
		for range 650 { // pages; the cache has room for some 500
			if _, err := tx.Exec("INSERT INTO rows (uid, body) VALUES (hex(randomblob(16)), hex(zeroblob(1500)))"); err != nil {
				return err
			}
		}
		return undone
	}})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	peer := rawConn(t, f.Path())
	for range 3 {
		if err := peer.Exec("INSERT INTO rows (uid) VALUES (hex(randomblob(16)))"); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, f, insert("ours too"))
	for name, c := range map[string]*sqlite3.Conn{"the peer": peer, "a newcomer": rawConn(t, f.Path())} {
		s, _, err := c.Prepare("SELECT count(*) || (SELECT integrity_check FROM pragma_integrity_check) FROM rows")
		if err != nil {
			t.Fatal(name, err)
		}
		if !s.Step() || s.ColumnText(0) != "5ok" {
			t.Errorf("%s sees %q: %v", name, s.ColumnText(0), s.Err())
		}
		s.Close()
	}
}
