package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"gatewayd/internal/mutation"
)

// Bounds of kept results. A conversation that needs one again after a week asks anew.
const (
	DefaultSpillAge   = 7 * 24 * time.Hour
	DefaultSpillBytes = 256 << 20
	sweepEvery        = 10 * time.Minute
)

// Spill keeps results that are too large for a row, each in a file for its owner alone, below a directory of its session. It is
// safe for concurrent use, and by several processes of one home.
type Spill struct {
	Dir      string        // <home>/spill; made when it is needed
	MaxAge   time.Duration // 0 means DefaultSpillAge
	MaxBytes int64         // of all sessions together, the oldest go first; 0 means DefaultSpillBytes
	Log      *slog.Logger  // nil: slog.Default

	mu    sync.Mutex
	swept time.Time
	added int64 // bytes since then
}

// keep writes a result and gives the file's path. The file is on the disk when it returns, as the row that names it will be.
func (s *Spill) keep(call Call, content string) (path string, err error) {
	dir, name := fileName(call.Session), fileName(call.Turn+"-"+call.ID)+".txt"
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory of kept results: %w", err)
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", fmt.Errorf("open directory of kept results: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make directory of a session's results: %w", err)
	}
	if err := writeNew(root, filepath.Join(dir, name), content); err != nil {
		return "", err
	}
	s.sweepSometimes(int64(len(content)))
	return filepath.Join(s.Dir, dir, name), nil
}

func writeNew(root *os.Root, name, content string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("make file of a result: %w", err)
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = root.Remove(name)
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// fileName is a session's or a call's id as the name of a file: as it is where that is safe, else a digest.
func fileName(id string) string {
	if plainName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id-" + hex.EncodeToString(sum[:16])
}

// Holds reports whether a path lies where the results of a session are kept.
func (s *Spill) Holds(session, path string) bool {
	return s != nil && within(filepath.Join(s.Dir, fileName(session)), path)
}

// Drop removes what is kept of sessions that are gone.
func (s *Spill) Drop(sessions ...string) error {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open directory of kept results: %w", err)
	}
	defer root.Close()
	for _, session := range sessions {
		err = errors.Join(err, root.RemoveAll(fileName(session)))
	}
	return err
}

func (s *Spill) sweepSometimes(more int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added += more
	if time.Since(s.swept) < sweepEvery && s.added < s.mostBytes()/8 {
		return
	}
	s.swept, s.added = time.Now(), 0
	if err := s.Sweep(time.Now()); err != nil {
		log := s.Log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("kept results not tidied", "path", s.Dir, "error", err)
	}
}

func (s *Spill) mostBytes() int64 {
	if s.MaxBytes > 0 {
		return s.MaxBytes
	}
	return DefaultSpillBytes
}

type kept struct {
	name string
	size int64
	at   time.Time
}

// Sweep removes what is too old, and the oldest where all together is too much; the newest stays in any case.
func (s *Spill) Sweep(now time.Time) error {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open directory of kept results: %w", err)
	}
	defer root.Close()
	files, total, err := keptFiles(root)
	age := s.MaxAge
	positive(&age, DefaultSpillAge)
	for i, f := range files {
		if i == len(files)-1 || now.Sub(f.at) < age && total <= s.mostBytes() || mutation.On("spill-grows-without-bound") {
			break
		}
		err = errors.Join(err, root.Remove(f.name))
		_ = root.Remove(filepath.Dir(f.name)) // goes only with its last file
		total -= f.size
	}
	return err
}

// keptFiles gives all of them, the oldest first.
func keptFiles(root *os.Root) (files []kept, total int64, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // another process tidies too
		}
		if info, err := e.Info(); err == nil {
			files, total = append(files, kept{name, info.Size(), info.ModTime()}), total+info.Size()
		}
		return nil
	})
	slices.SortFunc(files, func(a, b kept) int { return a.at.Compare(b.at) })
	return files, total, err
}

// within reports whether a path is a directory or lies below it, by their words.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
