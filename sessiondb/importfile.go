package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// ImportOptions say how a file of Export is taken in.
type ImportOptions struct {
	DryRun    bool
	Unlimited bool // lift the limits of a file (defaultLimits); it is still stored in one transaction, and other writers wait
}

func (o ImportOptions) limits() *fileLimits {
	if o.Unlimited {
		return nil
	}
	return &defaultLimits
}

// Import takes in a file that Export wrote. It checks the whole file first and stores all of it in one transaction, or nothing.
// What exists is never changed: a session that is here already is continued when its rows are the beginning of those in
// the file, and otherwise left as it is. A parent that is missing or would close a circle is let go. Leases and routes are
// not part of a file. A nil Store is an empty one and needs DryRun.
func Import(ctx context.Context, s *Store, path string, o ImportOptions) (Moved, error) {
	if s == nil && !o.DryRun {
		return Moved{}, errInvalid("import", "needs a store")
	}
	file, err := openImport(path)
	if err != nil {
		return Moved{}, err
	}
	defer file.Close()
	uids, err := checkFile(ctx, path, file, o.limits())
	if err != nil {
		return Moved{}, err
	}
	t := &taking{path: path, file: file, limits: o.limits(), uids: uids}
	switch {
	case s == nil:
		err = t.all(ctx, nil, nil)
	case o.DryRun:
		err = s.file.Read(ctx, func(c *sqlite.Conn) error { return t.all(ctx, c, nil) })
	default:
		err = t.store(ctx, s)
	}
	t.out.DryRun = o.DryRun
	return t.out, err
}

func openImport(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file, and it is read twice")
	}
	var file *os.File
	if err == nil {
		file, err = os.Open(path)
	}
	if err == nil {
		return file, nil
	}
	p := &problem.Error{Kind: problem.Unavailable, Thing: "file " + path, What: "cannot be read", Fate: "nothing was imported", Remedy: "check the path", Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		p.Kind, p.What, p.Err = problem.NotFound, "does not exist", nil
	}
	return nil, p
}

// checkFile reads the file once and gives the uids of each session.
func checkFile(ctx context.Context, path string, file *os.File, limits *fileLimits) (map[string][]string, error) {
	in := newFileReader(path, file, limits)
	uids := map[string][]string{}
	for {
		l, err := in.next()
		if errors.Is(err, io.EOF) {
			return uids, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if l.Message != nil {
			uids[in.session.id] = append(uids[in.session.id], l.Message.UID)
		}
	}
}

func (t *taking) store(ctx context.Context, s *Store) error {
	err := s.file.Write(ctx, sqlite.Op{
		Label: "import file", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error { return t.all(ctx, tx.Conn, tx) },
		Done: func(c *sqlite.Conn) (bool, error) {
			if t.lastUID != "" {
				return hasUID(c, t.lastUID)
			}
			return exists(c, `SELECT 1 FROM sessions WHERE id = ?`, t.lastNew)
		},
	})
	if err == nil || sqlite.IsCommitted(err) {
		s.work.added(int(t.out.Added))
		return err
	}
	t.out = Moved{Source: t.path, Sessions: []Outcome{}}
	return fmt.Errorf("import %s: %w", t.path, err)
}
