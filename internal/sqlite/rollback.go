package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// In rollback mode SQLite finds the journal by the name of the database, not by its inode. So a connection whose
// database was replaced takes the journal of whoever writes to the new one for that of a killed writer: it plays it
// into the old database and deletes it under its owner. And who opens the new one does the same with the journal of a
// transaction that is still under way in the old. Nothing is therefore read through SQLite once the path names another
// file, and nothing is opened beside such a journal.

// mayReadByName refuses a read in rollback mode when the path names another database.
func (f *File) mayReadByName() error {
	if f.journal.Mode == "wal" || mutation.On("replaced-is-read-by-name") {
		return nil
	}
	moved, err := differs(f.path, f.ident.main)
	if err != nil || !moved {
		return err
	}
	f.halt(&f.replaced, Replaced, f.path)
	return f.halted()
}

// awaitOldJournal is Busy while a journal beside the database belongs to a living process that is at work on another
// main file.
func (f *File) awaitOldJournal() error {
	path := f.path + "-journal"
	node := nodeAt(path)
	if node == (inode{}) {
		return nil
	}
	if old, err := f.isOldJournal(path, node); err != nil || !old {
		return err
	}
	return classify(Busy, "%s belongs to a transaction in the database that lay here before", path)
}

// isOldJournal: a journal with an owner, and nobody at work on the database. SQLite locks before it makes the journal and
// unlocks after it deleted it, so for a journal of this database that is never so. One that is not hot yet will be.
func (f *File) isOldJournal(path string, node inode) (bool, error) {
	main, err := os.Open(f.path)
	if err != nil {
		return false, nil // whoever opens it will say so
	}
	defer main.Close()
	if busy, err := writerAtWork(main); err != nil || busy {
		return false, err
	}
	found, err := procfs.OpenFiles(func(target string) bool { return target == path })
	if err != nil {
		return false, nil // nothing is known, and nothing refused
	}
	for _, fd := range found {
		if fd.Err == nil && node.is(fd.Dev, fd.Ino) {
			busy, err := writerAtWork(main)
			return err == nil && !busy && nodeAt(path) == node, err
		}
	}
	return false, nil
}

// captureWait is how long a capture waits for a transaction of another process in the lost database. A commit takes
// milliseconds; this is for a slow disk.
const captureWait = 10 * time.Second

// captureStill is capture in rollback mode: under the lock of a reader, which keeps every writer from the pages.
func (f *File) captureStill(ctx context.Context, c *Conn, trigger string) (Capture, error) {
	deadline := time.Now().Add(captureWait)
	for wait, waits := newBackoff(), false; ; waits = true {
		got, err := f.tryCapture(ctx, c, trigger)
		if ClassOf(err) == Busy && !waits {
			f.log.Info("capture waits for a transaction of another process", "path", f.path, "error", err)
		}
		if ClassOf(err) != Busy || !wait.pause(ctx, deadline) {
			return got, err
		}
	}
}

func (f *File) tryCapture(ctx context.Context, c *Conn, trigger string) (Capture, error) {
	r, err := f.relic()
	if err != nil {
		return Capture{}, err
	}
	defer r.close() // and with it the lock
	if err := tryShared(r.main); err != nil && !mutation.On("capture-without-lock") {
		return Capture{}, err
	}
	say := Manifest{Trigger: trigger}
	left, err := f.leftHalf(r.main)
	switch {
	case err != nil:
		return Capture{}, err
	case left == halfOurs && c != nil:
		r.close()
		return Capture{}, recoverBy(ctx, c)
	case left != halfNone:
		say.Unfinished, say.Note = true, "a writer was killed in the middle of a transaction"
	}
	return f.stage(r, say)
}

// recoverBy lets SQLite play back what a killed writer left, into the file that is held. It is Busy where that went well:
// look again.
func recoverBy(ctx context.Context, c *Conn) error {
	err := guard(func() error {
		return c.inRead(ctx, func(c *Conn) error { _, err := c.pragma("schema_version"); return err })
	})
	if err != nil {
		return err
	}
	return classify(Busy, "a transaction that was cut short has been undone")
}

// half is what a killed writer left in the database that is held.
type half int

const (
	halfNone  half = iota
	halfOurs       // the journal at the path undoes it
	halfDoubt      // the journal may as well be of the database that lies at the path now
)

// leftHalf looks whether the journal at the path belongs to the database that is held. It asks under tryShared: then who
// is at work has not touched a page.
func (f *File) leftHalf(main *os.File) (half, error) {
	if busy, err := writerAtWork(main); err != nil || busy {
		return halfNone, err
	}
	path := f.path + "-journal"
	j, err := readJournal(path)
	if err != nil || !j.hot || !j.fits(main) {
		return halfNone, err
	}
	if nodeAt(f.path) == f.ident.main {
		return halfOurs, nil
	}
	other, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return halfOurs, nil
	}
	if err != nil {
		return halfNone, err
	}
	defer other.Close()
	busy, err := writerAtWork(other)
	if err != nil || busy {
		return halfNone, err // it is that writer's: two cannot have one of this name
	}
	found := halfOurs
	if j.fits(other) {
		found = halfDoubt
	}
	if again, err := readJournal(path); err != nil || again != j {
		return halfNone, errors.Join(err, classify(Busy, "its journal changes"))
	}
	return found, nil
}

// undo is what a rollback journal says of its database, as it was before the transaction.
type undo struct {
	hot     bool // SQLite would play it back
	nonce   uint32
	page    uint32 // bytes
	pages   uint32
	first   bool // the first page is in it, with
	counter uint32
}

// readJournal reads the header and looks for the first page in what follows. What is not there or is no journal is not hot.
func readJournal(path string) (j undo, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return j, err
	}
	defer file.Close()
	head := make([]byte, journalHeader)
	if _, err := io.ReadFull(file, head); err != nil || string(head[:len(journalMagic)]) != journalMagic {
		return j, nil
	}
	u := func(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
	records, sector := u(head[8:]), u(head[20:])
	j = undo{hot: records > 0, nonce: u(head[12:]), page: u(head[24:]), pages: u(head[journalPages:])}
	record := make([]byte, 4+24+4) // its number, and the first page as far as its change counter
	for n := range int64(records) {
		if _, err := file.ReadAt(record, int64(sector)+n*(int64(j.page)+8)); err != nil {
			break
		}
		if u(record) == 1 {
			j.first, j.counter = true, u(record[4+24:])
			break
		}
	}
	return j, nil
}

// fits reports whether the transaction may have been one in this database: begun where it stands, or cut after the
// first page was written.
func (j undo) fits(main io.ReaderAt) bool {
	raw, err := readHeader(main)
	head := parseHeader(raw)
	switch {
	case err != nil || uint32(head.PageSize) != j.page:
		return false
	case j.first:
		return head.ChangeCounter == j.counter || head.ChangeCounter == j.counter+1
	}
	return head.PageCount == j.pages
}
