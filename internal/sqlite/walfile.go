package sqlite

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"gatewayd/internal/mutation"
)

// walVFS is the library's own file system but for one thing: the frames of a COMMIT reach the kernel in one write.
// SQLite writes each frame in two (24 bytes, then the page): a dozen calls for one row, two hundred for a batch.
type walVFS struct{ vfs.VFSFilename }

const (
	walVFSName  = "gatewayd"
	baseVFSName = "gatewayd-base" // what lies below in tests: a disk that fails when it is told to
)

// walName is the name that opens a database through walVFS.
func walName(path string) (string, error) {
	under := vfs.Find(baseVFSName)
	if under == nil {
		under = vfs.Find("")
	}
	base, ok := under.(vfs.VFSFilename)
	if !ok {
		return "", errors.New("the library's file system takes no file names")
	}
	vfs.Register(walVFSName, walVFS{base})
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?vfs=" + walVFSName, nil
}

// OpenFilename opens a file as the library does.
func (v walVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := v.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		file = &walFile{File: file}
	}
	return file, out, err
}

// walHeld bounds what is held back; a longer transaction is written in pieces.
const walHeld = 1 << 20

// walFile holds back what a COMMIT writes until it syncs or asks for anything else. Nobody can miss the frames
// before: with synchronous=FULL others are told of them after the sync. Outside of COMMIT nothing is held: the
// frames of a transaction that outgrew the cache and was rolled back must not land on those of the next writer.
type walFile struct {
	vfs.File
	committing bool
	held       []byte
	at         int64 // where held begins
}

// commit runs COMMIT.
func (c *Conn) commit() error {
	wal, ok := c.wal.(*walFile)
	if !ok {
		return c.control(sqlCommit)
	}
	wal.committing = true
	defer wal.drop()
	if err := c.control(sqlCommit); err != nil {
		return err
	}
	return wal.flush() // of nothing, as SQLite has synced
}

// Unwrap gives the library's file, with its descriptor.
func (f *walFile) Unwrap() vfs.File { return f.File }

func (f *walFile) drop() { f.committing, f.held = false, f.held[:0] }

// WriteAt holds what continues the bytes held, and begins anew with anything else.
func (f *walFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.committing {
		return f.File.WriteAt(p, off)
	}
	if off != f.at+int64(len(f.held)) || len(f.held)+len(p) > walHeld {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	if len(f.held) == 0 {
		f.at = off
	}
	f.held = append(f.held, p...)
	return len(p), nil
}

// flush forgets what it could not write: after the error SQLite rolls back.
func (f *walFile) flush() error {
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.held, f.at)
	f.held = f.held[:0]
	if err != nil {
		return vfs.SystemError(fmt.Errorf("write -wal: %w", err), sqlite3.IOERR_WRITE)
	}
	return nil
}

// Sync writes what is held and syncs.
func (f *walFile) Sync(flags vfs.SyncFlag) error {
	if mutation.On("log-written-after-its-sync") {
		return errors.Join(f.File.Sync(flags), f.flush())
	}
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// ReadAt sees what is held.
func (f *walFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// Truncate comes after what is held.
func (f *walFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Size counts what is held.
func (f *walFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}
