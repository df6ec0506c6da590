package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"gatewayd/internal/problem"
)

// ReplayCapture makes a private database in scratchDir of what a capture holds: a copy of its database with the
// captured -wal played in by SQLite, up to the last frame of a committed transaction. The digests are checked before,
// the integrity of the whole after, and the capture is not touched. The database that it names is closed and has no
// sidecars. scratchDir must exist and hold none of its name. It blocks for a copy and a whole check.
func ReplayCapture(ctx context.Context, c Capture, scratchDir string) (path string, err error) {
	m := c.Manifest
	refuse := func(what, remedy string, err error) error {
		return &problem.Error{Kind: problem.Damaged, Thing: "capture " + c.Dir, What: what, Fate: "it was left as it is", Remedy: remedy, Err: err}
	}
	if m.Version != manifestVersion {
		return "", refuse(fmt.Sprintf("has a manifest of version %d, which this program does not know", m.Version), "use the program that made it", nil)
	}
	if m.Main.Mode != MainCopied {
		return "", refuse("has no copy of the database, which was too large or one too many", "its -wal fits only on a copy of the database from before that time", nil)
	}
	if m.Unfinished {
		return "", refuse("holds half a transaction of a process that was killed, and not what undoes it", "its files may still be read by hand, from a copy", nil)
	}
	path = filepath.Join(scratchDir, filepath.Base(m.Main.File))
	if err := copyVerified(c.Dir, m.Main.Image, path); err != nil {
		return "", refuse("cannot be copied", "see the capture's files", err)
	}
	if m.WAL != nil {
		if err := copyVerified(c.Dir, *m.WAL, path+"-wal"); err != nil {
			return "", refuse("cannot be copied", "see the capture's files", err)
		}
	}
	if err := playBack(ctx, path); err != nil {
		return "", refuse("does not make a whole database", "its files may still be read by hand, from a copy", err)
	}
	return path, nil
}

// copyVerified copies a file that is what the manifest says.
func copyVerified(dir string, image Image, to string) error {
	src, err := os.Open(filepath.Join(dir, filepath.Base(image.File)))
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, sum), src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != image.Bytes || got != image.SHA256 {
		return classify(Corrupt, "%s has %d bytes with digest %s, the manifest says %d with %s", image.File, n, got, image.Bytes, image.SHA256)
	}
	return nil
}

// playBack opens a private copy once, lets SQLite recover it, checks it, and closes it with a checkpoint.
func playBack(ctx context.Context, path string) error {
	return guard(func() (err error) {
		db, err := sqlite3.OpenFlags("file:"+(&url.URL{Path: path}).EscapedPath(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
		if err != nil {
			return err
		}
		c := &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
		defer func() { err = errors.Join(err, c.close()) }()
		if err := fts5.Register(db); err != nil {
			return fmt.Errorf("register fts5: %w", err)
		}
		verdict, err := c.integrity(ctx)
		if err != nil {
			return err
		}
		if verdict != "ok" {
			return classify(Corrupt, "%s", verdict)
		}
		return nil
	})
}
