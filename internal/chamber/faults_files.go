package chamber

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatewayd/internal/sqlite"
)

// lose does something to the files under the open handles. Everybody who writes must come to a halt for this reason and go
// on with a new handle.
func lose(what string, reason sqlite.Reason, do func(ctx context.Context, s *Stage) error) Fault {
	return Fault{Name: what, Do: func(ctx context.Context, s *Stage) error {
		if err := do(ctx, s); err != nil {
			return err
		}
		for _, p := range s.cast {
			if !p.part.With.Heal {
				continue
			}
			if err := p.await(ctx, "halted", 1); err != nil {
				return err
			}
			if got := p.last("halted"); got.Class != string(reason) {
				return fmt.Errorf("%s halted for %q instead of %q: %s", p.name, got.Class, reason, got.Text)
			}
		}
		for _, p := range s.cast {
			if !p.part.With.Heal {
				continue
			}
			if err := p.await(ctx, "healed", 1); err != nil {
				return err
			}
		}
		return nil
	}}
}

// unlink removes one of the files beside a database, which is named by its file.
func unlink(database, suffix string) func(context.Context, *Stage) error {
	return func(_ context.Context, s *Stage) error { return os.Remove(filepath.Join(s.Dir, database+suffix)) }
}

// supplant puts another file in the place of one of the files beside a database.
func supplant(database, suffix string) func(context.Context, *Stage) error {
	return func(_ context.Context, s *Stage) error {
		path := filepath.Join(s.Dir, database+suffix)
		if err := os.WriteFile(path+".other", nil, 0o600); err != nil {
			return err
		}
		return os.Rename(path+".other", path)
	}
}

// putBack puts an older copy of the store in its place, as somebody does who restores a backup under a running daemon:
// with the files beside it removed, or left as they are.
func putBack(remove ...string) func(context.Context, *Stage) error {
	return func(ctx context.Context, s *Stage) error {
		if err := s.alone(ctx, Part{Role: "snapshot"}); err != nil {
			return err
		}
		for _, p := range s.cast { // what comes now is in the older copy no more
			if err := p.awaitMore(ctx, "acked", 4); err != nil {
				return err
			}
		}
		if err := os.Rename(s.Path(".older"), s.Path("")); err != nil {
			return err
		}
		for _, suffix := range remove {
			if err := os.Remove(s.Path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
}

// alone runs a part that ends by itself.
func (s *Stage) alone(ctx context.Context, part Part) error {
	p, err := s.start(part, s.Seed)
	if err != nil {
		return err
	}
	select {
	case <-p.proc.Done():
	case <-ctx.Done():
		p.kill()
		return context.Cause(ctx)
	}
	if wrong := p.verdict(); len(wrong) > 0 {
		return errors.New(wrong[0])
	}
	return nil
}

// cutIndex truncates the -shm under the open handles, twice. It costs their connections and nobody notices: the proof is
// that the file has grown again.
func cutIndex() Fault {
	return Fault{Name: "-shm truncated", Do: func(ctx context.Context, s *Stage) error {
		for range 2 {
			if err := os.Truncate(s.Path("-shm"), 0); err != nil {
				return err
			}
			if err := s.working(ctx); err != nil {
				return err
			}
			info, err := os.Stat(s.Path("-shm"))
			if err != nil || info.Size() == 0 {
				return fmt.Errorf("nobody has made the -shm anew: %v", err)
			}
		}
		return nil
	}}
}

// captured proves that what was lost was kept: there is at least one capture, and its manifest can be read.
func captured(database string) Fault {
	return Fault{Name: "captures are there", Do: func(_ context.Context, s *Stage) error {
		found, err := sqlite.Captures(filepath.Join(s.Dir, database))
		if err == nil && len(found) == 0 {
			err = errors.New("no capture was made")
		}
		return err
	}}
}

// fillDisk takes all space of the file system, until the writers have met it, and gives it back. It is for a small file
// system made for this.
func fillDisk() Fault {
	return Fault{Name: "no space left", Do: func(ctx context.Context, s *Stage) error {
		path := filepath.Join(s.Dir, "ballast")
		defer os.Remove(path)
		if err := ballast(path); err != nil {
			return err
		}
		for _, p := range s.cast {
			if p.part.With.Full {
				if err := s.keepFull(ctx, path, p); err != nil {
					return err
				}
			}
		}
		return os.Remove(path)
	}}
}

// keepFull waits until a writer has met the full disk, and takes what becomes free meanwhile.
func (s *Stage) keepFull(ctx context.Context, path string, p *actorProcess) error {
	limit := time.Now().Add(patience)
	for p.count("full") == 0 {
		if time.Now().After(limit) {
			return fmt.Errorf("%s never met the full disk", p.name)
		}
		if err := ballast(path); err != nil {
			return err
		}
		if err := s.moment(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// ballast appends until there is no space.
func ballast(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 4096)
	for {
		if _, err := file.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// restore puts the newest backup of the store in its place, by the verb, which must end with this code and say this.
func restore(code int, words string) Fault {
	return Fault{Name: "gatewayd restore", Do: func(ctx context.Context, s *Stage) error {
		made, err := sqlite.Backups(filepath.Join(s.Dir, "backups"))
		for _, b := range made {
			if b.Manifest.File == storeFile {
				return answers(code, words, "restore", b.Dir).Do(ctx, s)
			}
		}
		return errors.Join(err, errors.New("no backup of the store was made"))
	}}
}
