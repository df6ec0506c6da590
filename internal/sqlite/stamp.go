package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Stamp changes when any process, this one included, committed to the database. It is comparable and means
// nothing else; a checkpoint may change it too.
type Stamp struct {
	index   [walIndexHeader]byte // of the -shm, in WAL
	version int64                // data_version, otherwise
}

// walIndexHeader is the first copy of the header of the WAL index: change counter, frames, salts, checksum.
const walIndexHeader = 48

// identityEvery bounds how often a poll also looks whether the files are still the ones that are open.
const identityEvery = 5 * time.Second

// watch is what Stamp looks at.
type watch struct {
	mu     sync.Mutex
	shm    io.ReaderAt // the writer connection's own descriptor; nil without one
	conn   *Conn       // for data_version, its own connection, which never waits
	last   Stamp       // reused for reading, so that a poll allocates nothing
	looked time.Time
	ended  bool // after Close
}

// hold takes the descriptor of a connection that becomes the writer.
func (w *watch) hold(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shm, _ = c.shm.(io.ReaderAt)
}

// descriptors counts those that it has open on the main file.
func (w *watch) descriptors() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return 0
	}
	return 1
}

// forget drops the descriptor before its connection ends.
func (f *File) forget(c *Conn) {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	if r, ok := c.shm.(io.ReaderAt); ok && r == f.watch.shm {
		f.watch.shm = nil
	}
}

// Stamp reads the change mark: 48 bytes of the -shm through the connection's own descriptor for WAL, about a
// microsecond; data_version for the rest. It never waits for a lock: while another process commits to a DELETE
// database the last mark is given again. Safe for concurrent use.
func (f *File) Stamp() (Stamp, error) {
	w := &f.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return Stamp{}, errClosed
	}
	if time.Since(w.looked) >= identityEvery {
		w.looked = time.Now()
		if err := f.checkIdentity(); err != nil {
			return Stamp{}, err
		}
	}
	if w.shm != nil {
		return w.readIndex()
	}
	return w.readVersion(f)
}

func (w *watch) readIndex() (Stamp, error) {
	if _, err := w.shm.ReadAt(w.last.index[:], 0); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return Stamp{}, errClosed
		}
		return Stamp{}, &classified{class: IO, err: fmt.Errorf("read change mark: %w", err)}
	}
	return w.last, nil
}

func (w *watch) readVersion(f *File) (Stamp, error) {
	err := guard(func() (err error) {
		if w.conn == nil {
			if w.conn, err = f.connect(roleWatcher); err != nil {
				return err
			}
		}
		var text string
		for row, err := range w.conn.Query("PRAGMA data_version") {
			if err != nil {
				return err
			}
			text = row.Text(0)
		}
		w.last.version, err = strconv.ParseInt(text, 10, 64)
		return err
	})
	if isFault(err) && w.conn != nil {
		c := w.conn
		w.conn = nil
		w.mu.Unlock() // burying takes the lock to forget the descriptor
		f.bury(c, err)
		w.mu.Lock()
	}
	if err != nil && ClassOf(err) != Busy {
		return Stamp{}, f.explain(fmt.Errorf("read change mark: %w", err), "")
	}
	return w.last, nil
}

// close ends the watcher's connection.
func (w *watch) close(f *File) {
	w.mu.Lock()
	c := w.conn
	w.conn, w.shm, w.ended = nil, nil, true
	w.mu.Unlock()
	if c != nil {
		f.drop(c)
	}
}
