package kanban

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// ErrCorruptBoard is what every *CorruptError is.
var ErrCorruptBoard = errors.New("board is corrupt")

// CorruptError says that a board's file is not what it must be. Nothing was written to it.
type CorruptError struct {
	Path   string
	Backup string // the forensic copy, once BackupCorrupt made one
	Reason string
	why    *problem.Error
}

func (e *CorruptError) Error() string        { return e.why.Error() }
func (e *CorruptError) Unwrap() error        { return e.why }
func (e *CorruptError) Is(target error) bool { return target == ErrCorruptBoard }

func corruptBoard(slug Slug, path string, cause error) error {
	why := &problem.Error{
		Kind: problem.Damaged, Thing: boardThing(slug, path), What: "is not a valid SQLite database", Fate: "the file was left as it is",
		Remedy: sqlite.RepairRemedy(BoardLabel(slug)), Err: cause,
	}
	if p, ok := errors.AsType[*problem.Error](cause); ok {
		why.What, why.Err, why.Remedy = p.What, p.Err, cmp.Or(p.Remedy, why.Remedy)
	}
	reason := &problem.Error{What: why.What, Err: why.Err}
	return &CorruptError{Path: path, Reason: reason.Error(), why: why}
}

// Committed reports that a verb's change is stored although the file is suspect. It must not be repeated.
func Committed(err error) bool { return sqlite.IsCommitted(err) }

// keepCorrupt is how many forensic copies of one board are kept. A copy per tick once filled a disk.
const keepCorrupt = 10

// BackupCorrupt keeps a forensic copy of a board's file and of its -wal and -shm, named by the content, so that the same
// damage is copied once however often this is called. It never touches the file itself. Only the newest ten are kept.
func BackupCorrupt(path string) (string, error) {
	sum, err := contentSum(path)
	if err != nil {
		return "", fmt.Errorf("back up corrupt board: %w", err)
	}
	backup := path + ".corrupt." + sum[:16] + ".bak"
	if _, err := os.Lstat(backup); err == nil {
		return backup, nil
	}
	for _, side := range []string{"-wal", "-shm", ""} {
		if err := copyFile(path+side, backup+side); err != nil && (side == "" || !errors.Is(err, fs.ErrNotExist)) {
			return "", fmt.Errorf("back up corrupt board: %w", err)
		}
	}
	return backup, pruneCorrupt(path)
}

func contentSum(path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openRegular opens a file for reading. What is none, a FIFO above all, could be waited for without an end.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: is not a regular file", path)
	}
	return f, nil
}

// copyFile makes the copy complete before it has its name.
func copyFile(from, to string) (err error) {
	src, err := openRegular(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(dst.Name())
		}
	}()
	_, err = io.Copy(dst, src)
	if serr := dst.Sync(); err == nil {
		err = serr
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(dst.Name(), to)
}

func pruneCorrupt(path string) error {
	copies, err := forensicCopies(path)
	if err != nil {
		return fmt.Errorf("prune forensic copies: %w", err)
	}
	for _, old := range copies[min(len(copies), keepCorrupt):] {
		for _, side := range []string{"-wal", "-shm", ""} {
			if err := os.Remove(old + side); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("prune forensic copies: %w", err)
			}
		}
	}
	return nil
}

// forensicCopies lists the copies of a board, newest first.
func forensicCopies(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var copies []string
	age := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), filepath.Base(path)+".corrupt.") || !strings.HasSuffix(e.Name(), ".bak") {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		copies, age[name] = append(copies, name), info.ModTime().UnixNano()
	}
	slices.SortFunc(copies, func(a, b string) int {
		return cmp.Or(cmp.Compare(age[b], age[a]), strings.Compare(a, b))
	})
	return copies, nil
}
