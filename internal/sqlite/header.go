package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gatewayd/internal/problem"
)

const (
	headerSize = 100
	magic      = "SQLite format 3\x00"
)

// The bytes of the header that are read raw.
const (
	headerPageSize  = 16 // big endian, 1 means 65536
	headerWriteVer  = 18 // 1 rollback, 2 WAL
	headerReadVer   = 19
	headerPageCount = 28 // big endian
)

// resolve gives the path without symbolic links, so that all names of one file are one file. The file itself may
// be missing.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	full, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return full, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	return filepath.Join(dir, filepath.Base(abs)), err
}

// preflight looks at what lies at the path before SQLite may touch it, and creates the file where that was asked
// for and nothing is there. An existing file is never changed.
func (f *File) preflight(ctx context.Context) error {
	found, err := f.survey()
	switch {
	case err != nil:
		return err
	case found == placeContent:
		return f.preflightHeader(ctx)
	case !f.opts.Create && found == placeVacant:
		return f.refuse(Missing, problem.NotFound, "does not exist", "create it first", fs.ErrNotExist)
	case !f.opts.Create:
		return f.refuse(Missing, problem.NotFound, "is empty", "create it first", nil)
	case found == placeVacant:
		return f.create()
	}
	return nil
}

func (f *File) create() error {
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		return f.refuseCreate(err)
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another opener was first; SQLite's locks settle the rest
	}
	if err != nil {
		return f.refuseCreate(err)
	}
	return file.Close()
}

func (f *File) refuseCreate(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return f.refuse(NoSpace, problem.Full, "cannot be created", "free some space", err)
	case errors.Is(err, syscall.EROFS):
		return f.refuse(ReadOnly, problem.Denied, "cannot be created", "its file system is read-only; use another place", err)
	case errors.Is(err, fs.ErrPermission):
		return f.refuse(ReadOnly, problem.Denied, "cannot be created", "check owner and permissions of its directory", err)
	}
	return f.refuse(IO, problem.Unavailable, "cannot be created", "check the path", err)
}

// preflightHeader reads the first bytes. The extra open and close is harmless: our locks are OFD locks.
func (f *File) preflightHeader(ctx context.Context) error {
	file, err := os.Open(f.path)
	if err != nil {
		return f.refuse(ReadOnly, problem.Denied, "cannot be read", "check owner and permissions", err)
	}
	defer file.Close()
	head := make([]byte, headerSize)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return f.refuse(IO, problem.Unavailable, "cannot be read", "see the kernel log for the disk", err)
	}
	head = head[:n]
	if n < headerSize || !strings.HasPrefix(string(head), magic) {
		if f.neverFinished() {
			return f.preflightUnfinished()
		}
		return f.refuse(NotADatabase, problem.Damaged,
			fmt.Sprintf("cannot be opened: file is not a database: invalid SQLite header %q%s", head[:min(n, 16)], tlsHint(head)),
			"move it away, or "+PutBack, nil)
	}
	if head[headerWriteVer] == 2 {
		if err := f.refuseRetired(ctx, nil); err != nil {
			return err
		}
	}
	return f.lookFirst(ctx, head[headerWriteVer])
}

// tlsHint names the one incident that is easy to recognise: a recycled descriptor number once made a program
// write its network traffic into the database.
func tlsHint(head []byte) string {
	for _, at := range []int{0, 5} {
		if len(head) > at+2 && head[at] >= 0x14 && head[at] <= 0x17 && head[at+1] == 3 && head[at+2] <= 4 {
			return " (this looks like a TLS record: some program wrote network traffic into the file)"
		}
	}
	return ""
}

// errSaidInFull is the cause of a refusal whose words need none: it adds no text to them.
var errSaidInFull = errors.New("")

// refuse is the one shape of a file that is not opened: it names the thing and leaves it alone.
func (f *File) refuse(class Class, kind problem.Kind, what, remedy string, cause error) error {
	if cause == nil {
		cause = errSaidInFull
	}
	return &problem.Error{
		Kind: kind, Thing: f.thing(), What: what, Fate: "it was left as it is", Remedy: remedy,
		Err: &classified{class: class, err: cause},
	}
}

func (f *File) dir() string { return filepath.Dir(f.path) }
