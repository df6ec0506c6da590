package kanban

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// WorkerLog is the log of a card's workers, or its end. The one older generation, ".1", is taken for the beginning of it.
type WorkerLog struct {
	Task      string `json:"task_id"`
	Path      string `json:"path"`
	Exists    bool   `json:"exists"`
	Size      int64  `json:"size_bytes"` // of all there is
	Content   string `json:"content"`    // raw: what a terminal makes of it is the reader's to bound
	Truncated bool   `json:"truncated"`  // Content is not all of it
}

// ReadLog gives the last tail bytes of a card's log; 0 = all. A card that nobody has worked on has none, and that is no
// error. It reads at most two generations into memory.
func (r *Root) ReadLog(slug Slug, task string, tail int64) (WorkerLog, error) {
	log := WorkerLog{Task: task, Path: r.LogPath(slug, task)}
	var parts []io.Reader
	for _, path := range []string{log.Path + ".1", log.Path} {
		f, err := openRegular(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return log, diskProblem("log "+path, "cannot be read", unchanged, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return log, diskProblem("log "+path, "cannot be read", unchanged, err)
		}
		log.Exists, log.Size = true, log.Size+info.Size()
		parts = append(parts, io.LimitReader(f, info.Size()))
	}
	all := io.MultiReader(parts...)
	if skip := log.Size - tail; tail > 0 && skip > 0 {
		log.Truncated = true
		if _, err := io.CopyN(io.Discard, all, skip); err != nil {
			return log, diskProblem("log "+log.Path, "cannot be read", unchanged, err)
		}
	}
	text := new(strings.Builder)
	if _, err := io.Copy(text, all); err != nil {
		return log, diskProblem("log "+log.Path, "cannot be read", unchanged, err)
	}
	log.Content = text.String()
	return log, nil
}

// Follow says how a log is followed.
type Follow struct {
	Tail  int64                               // begin with so many of the bytes that are there; 0 = all
	Ended func(context.Context) (bool, error) // nobody writes it any more
	Tick  <-chan time.Time                    // when to look again; nil = four times a second
	Lost  func()                              // the log was rotated twice between two looks; nil = nobody is told
}

const followEvery = 250 * time.Millisecond

// FollowLog writes a card's log to w as it grows, across its rotation, until Ended says so and nothing more comes, or ctx
// ends. Between two looks it sleeps; a look costs two stats.
func (r *Root) FollowLog(ctx context.Context, slug Slug, task string, w io.Writer, o Follow) error {
	have, err := r.ReadLog(slug, task, o.Tail)
	if err != nil {
		return err
	}
	if o.Tick == nil {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		o.Tick = ticker.C
	}
	f := &follower{path: have.Path, out: w, lost: o.Lost}
	defer f.close()
	if err := f.begin(have); err != nil {
		return err
	}
	for quiet := false; ; {
		n, err := f.look()
		if err != nil {
			return err
		}
		over, err := o.Ended(ctx)
		switch {
		case err != nil:
			return err
		case over && quiet && n == 0:
			return nil
		}
		quiet = over && n == 0 // a worker that has said its last word to the board may have a few for its log
		select {
		case <-o.Tick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follower holds the generation that is being written.
type follower struct {
	path string
	out  io.Writer
	file *os.File
	lost func()
}

// begin writes what is there and opens the log where that ends. What came between the two is seen by the next look.
func (f *follower) begin(have WorkerLog) error {
	if _, err := io.WriteString(f.out, have.Content); err != nil {
		return err
	}
	if !have.Exists {
		return nil
	}
	older, err := os.Stat(f.path + ".1")
	size := have.Size
	if err == nil {
		size -= older.Size()
	}
	if err := f.open(); err != nil || f.file == nil {
		return err
	}
	_, err = f.file.Seek(max(size, 0), io.SeekStart)
	return err
}

func (f *follower) open() error {
	file, err := openRegular(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskProblem("log "+f.path, "cannot be read", unchanged, err)
	}
	f.file = file
	return nil
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// look writes what came, of the generation that is open and of the one that has taken its place.
func (f *follower) look() (written int64, err error) {
	for {
		if f.file == nil {
			if err := f.open(); err != nil || f.file == nil {
				return written, err
			}
		}
		rotated := !f.isAt(f.path) // before reading: what is written after that lands in the new one
		n, err := io.Copy(f.out, f.file)
		written += n
		if err != nil {
			return written, fmt.Errorf("follow log %s: %w", f.path, err)
		}
		if !rotated {
			return written, nil
		}
		if !f.isAt(f.path+".1") && f.lost != nil {
			f.lost()
		}
		f.close()
	}
}

// isAt reports whether the open generation lies at a path.
func (f *follower) isAt(path string) bool {
	ours, err := f.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}
