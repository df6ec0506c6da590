package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// Class is what an error means for the one who has to act on it. It is decided by result codes, never by text.
type Class string

const (
	Busy         Class = "busy"           // another process holds the lock; later may work
	Corrupt      Class = "corrupt"        // the content is damaged
	NotADatabase Class = "not a database" // something else lies where a database belongs
	Replaced     Class = "replaced"       // the path holds another file than the one that is open
	Overwritten  Class = "overwritten"    // another database was written into the file that is open
	LostWAL      Class = "lost wal"       // the -wal or -shm that is open is no longer the one on disk
	NoSpace      Class = "no space"       // the file system or its inodes are used up
	ReadOnly     Class = "read only"      // no permission to write
	IO           Class = "io"             // the disk, the mapping or the lock service failed
	Constraint   Class = "constraint"     // a UNIQUE, CHECK, NOT NULL or foreign key refused the row
	Interrupted  Class = "interrupted"    // the caller's context ended
	Closed       Class = "closed"         // the File is closed
	Missing      Class = "missing"        // there is no such file
	Other        Class = "other"          // everything else: SQL errors and errors of the caller's own function
)

// errClosed is the cause of every use after Close.
var errClosed = &classified{class: Closed, err: errors.New("database handle is closed")}

// classified carries a class that the code alone does not give: ENOSPC arrives as an I/O error, for example, and
// only statfs tells.
type classified struct {
	class Class
	err   error
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

func classify(class Class, format string, args ...any) error {
	return &classified{class: class, err: fmt.Errorf(format, args...)}
}

// ClassOf says what an error from this package means. It looks through wrapping; nil and foreign errors are Other.
func ClassOf(err error) Class {
	if c, ok := errors.AsType[*classified](err); ok {
		return c.class
	}
	var code sqlite3.ExtendedErrorCode
	if errors.As(err, &code) {
		return classOfCode(code, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Interrupted
	}
	return Other
}

func classOfCode(code sqlite3.ExtendedErrorCode, err error) Class {
	switch code {
	case sqlite3.IOERR_SHORT_READ, sqlite3.IOERR_DATA, sqlite3.IOERR_CORRUPTFS:
		return Corrupt
	case sqlite3.READONLY_DBMOVED:
		return Replaced
	case sqlite3.CANTOPEN_ISDIR:
		return NotADatabase
	}
	switch code.Code() {
	case sqlite3.BUSY, sqlite3.LOCKED:
		return Busy
	case sqlite3.CORRUPT:
		return Corrupt
	case sqlite3.NOTADB:
		return NotADatabase
	case sqlite3.FULL:
		return NoSpace
	case sqlite3.READONLY, sqlite3.PERM:
		return ReadOnly
	case sqlite3.CANTOPEN:
		return classOfCantOpen(err)
	case sqlite3.IOERR, sqlite3.PROTOCOL, sqlite3.NOMEM:
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return NoSpace
		case errors.Is(err, syscall.EROFS):
			return ReadOnly
		}
		return IO
	case sqlite3.CONSTRAINT:
		return Constraint
	case sqlite3.INTERRUPT:
		return Interrupted
	}
	return Other
}

func classOfCantOpen(err error) Class {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return ReadOnly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return NoSpace
	}
	return IO
}

// hasCode reports whether SQLite itself said something in this chain.
func hasCode(err error) bool {
	var code sqlite3.ExtendedErrorCode
	return errors.As(err, &code)
}

// advice is the wording for people, one row per class.
type advice struct {
	kind         problem.Kind
	what, remedy string
}

var advices = map[Class]advice{
	Busy:         {problem.Busy, "is locked by another process", "try again, or look who holds it with `fuser`"},
	Corrupt:      {problem.Damaged, "is damaged", RepairRemedy("")},
	NotADatabase: {problem.Damaged, "is not a SQLite database", "move it away, or " + PutBack},
	Replaced:     {problem.Damaged, "was replaced on disk while it was open", "it is opened anew at the next use; see who copies over it"},
	Overwritten:  {problem.Damaged, "was overwritten in place by another database while it was open", "it is opened anew at the next use; see who copies over it"},
	LostWAL:      {problem.Damaged, "lost its -wal or -shm file while it was open", "see who deletes these files; they belong to the database"},
	NoSpace:      {problem.Full, "cannot grow: no space left on its file system", "free some space"},
	ReadOnly:     {problem.Denied, "cannot be written", "check owner and permissions of the file, its -wal, -shm and the directory"},
	IO:           {problem.Unavailable, "cannot be read or written", "see the kernel log for the disk"},
	Constraint:   {problem.Conflict, "refused the row", ""},
	Closed:       {problem.Unavailable, "is closed", ""},
	Missing:      {problem.NotFound, "does not exist", "create it first"},
}

// readOnlyDisk is the advice where the file is not to blame: a kernel that meets an error stops writing to the whole disk.
var readOnlyDisk = advice{problem.Denied, "cannot be written: its file system is read-only", "see the kernel log for why, and mount it writable again"}

// noTemporary is the advice where the database is not to blame: what a statement has no memory for goes into a file without a name, and
// there is no place for one.
func noTemporary() advice {
	return advice{
		problem.Unavailable, "needs a temporary file, and none can be made in " + os.TempDir(),
		"make that directory again, one that this user can write; or set TMPDIR to one and restart",
	}
}

// explain turns an error of SQLite or of the disk into the one a person reads. Errors of a caller's own function
// and problems that are explained already pass unchanged, and so does an ended context.
func (f *File) explain(err error, fate string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	err = f.accessDecides(f.spaceDecides(err))
	class := ClassOf(err)
	advice, ok := advices[class]
	if !ok || class == Constraint {
		return err
	}
	if errors.Is(err, syscall.EROFS) {
		advice = readOnlyDisk
	}
	if errors.Is(err, sqlite3.IOERR_GETTEMPPATH) {
		advice = noTemporary()
	}
	if class == Corrupt {
		advice.remedy = RepairRemedy(f.opts.Label)
	}
	return &problem.Error{Kind: advice.kind, Thing: f.thing(), What: advice.what, Fate: fate, Remedy: advice.remedy, Err: err}
}

// PutBack is the remedy where nothing but a good copy helps.
const PutBack = "put a backup in its place with `gatewayd restore BACKUP`; `gatewayd backup list` names them"

// RepairRemedy is the remedy for damaged pages of the database with this label, as the whole command line: a verb of
// which only half is named lets its reader guess while something is broken.
func RepairRemedy(label string) string {
	return "stop what has it open, then run `" + repairCommand(label) + "`; or " + PutBack
}

// repairCommand follows the labels that state.db and the boards are opened with.
func repairCommand(label string) string {
	if what, ok := strings.CutSuffix(label, ".db"); ok && !strings.Contains(what, " ") || strings.HasPrefix(label, "board ") {
		return "gatewayd repair " + what
	}
	return "gatewayd repair"
}

// thing names the file for a person.
func (f *File) thing() string { return thingOf(f.opts.Label, f.path) }

func thingOf(label, path string) string {
	if label == "" {
		return path
	}
	return fmt.Sprintf("%s (%s)", label, path)
}

// spaceLeft is what a file system must have for an I/O error not to be blamed on it. SQLite writes in pages; a
// file system with less than this cannot take a transaction and a checkpoint.
const spaceLeft = 256 << 10

// spaceDecides asks statfs when SQLite reports a failed write: the library passes ENOSPC on as IOERR_WRITE, and by the
// time SQLite reports the error the errno is gone.
func (f *File) spaceDecides(err error) error {
	if ClassOf(err) != IO || !isWriteFault(err) {
		return err
	}
	switch {
	case f.opts.seams.full(f.dir()):
		return &classified{class: NoSpace, err: err}
	case f.opts.seams.readOnly(f.dir()):
		return &classified{class: ReadOnly, err: fmt.Errorf("%w: %w", syscall.EROFS, err)}
	}
	return err
}

// accessDecides looks which of the files beside the database cannot be opened, when SQLite only says that one cannot.
func (f *File) accessDecides(err error) error {
	if ClassOf(err) != IO || !errors.Is(err, sqlite3.CANTOPEN) {
		return err
	}
	for _, path := range []string{f.walPath, f.shmPath, f.path + "-journal"} {
		file, open := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if open == nil {
			file.Close()
			continue
		}
		if errors.Is(open, fs.ErrPermission) || errors.Is(open, syscall.EROFS) || errors.Is(open, syscall.EISDIR) {
			return &classified{class: ReadOnly, err: open}
		}
	}
	return err
}

func isWriteFault(err error) bool {
	for _, code := range []sqlite3.ExtendedErrorCode{
		sqlite3.IOERR_WRITE, sqlite3.IOERR_FSYNC, sqlite3.IOERR_DIR_FSYNC, sqlite3.IOERR_TRUNCATE,
		sqlite3.IOERR_DELETE, sqlite3.IOERR_SHMSIZE, sqlite3.IOERR_SHMOPEN, sqlite3.IOERR_SHMMAP,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return errors.Is(err, sqlite3.CANTOPEN) // a journal that cannot be made
}
