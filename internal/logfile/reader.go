package logfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Filter says which records are wanted. Its zero value wants all.
type Filter struct {
	Since time.Time         // not older
	Level slog.Level        // not less grave
	Attrs map[string]string // with these values, as "session" or "task"
	Last  int               // the newest so many of what is there; 0 is all of it
}

func (f Filter) wants(r Record) bool {
	if r.Time.Before(f.Since) || r.Level < f.Level {
		return false
	}
	for key, want := range f.Attrs {
		if got, there := r.value(key); !there || got != want {
			return false
		}
	}
	return true
}

// lineMost is the longest line that is read; a longer one is no record of ours.
const lineMost = 1 << 20

// Read gives the records that are there, oldest first. Lines that are no record are passed over and counted. A home without logs
// gives an error that is fs.ErrNotExist.
func Read(home string, f Filter, each func(Record)) (odd int, err error) {
	_, odd, err = read(home, f, each)
	return odd, err
}

// pollEvery is how soon a new line is seen.
const pollEvery = 250 * time.Millisecond

// Follow gives what Read gives and then each new record, until ctx ends. It survives that the newest file becomes an older one, that
// the daemon ends and begins, and that there are no logs yet.
func Follow(ctx context.Context, home string, f Filter, each func(Record)) error {
	at, _, err := read(home, f, each)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if at, err = at.next(home, f, each); err != nil {
			return err
		}
	}
}

// place is how far a file was read.
type place struct {
	info   fs.FileInfo // of the newest file; nil: there was none
	offset int64
}

// read reads all files.
func read(home string, f Filter, each func(Record)) (at place, odd int, err error) {
	paths, err := files(home, f.Since)
	if err != nil {
		return place{}, 0, err
	}
	last := newest{most: f.Last, each: each}
	for _, path := range paths {
		n, next, err := scan(path, 0, f, last.take)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was too old and has just gone
		}
		if err != nil {
			return place{}, odd, err
		}
		at, odd = next, odd+n
	}
	last.flush()
	return at, odd, nil
}

// files lists the files that may hold what is wanted, oldest first.
func files(home string, since time.Time) ([]string, error) {
	path := Path(home)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var older []string
	base := strings.TrimSuffix(filepath.Base(path), ".log")
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), base+"-") && strings.HasSuffix(e.Name(), ".log") && !info.ModTime().Before(since) {
			older = append(older, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.Sort(older) // their names tell when they were closed
	if _, err := os.Stat(path); err != nil && len(older) == 0 {
		return nil, err
	}
	return append(older, path), nil
}

// next reads what was written since.
func (at place) next(home string, f Filter, each func(Record)) (place, error) {
	path := Path(home)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	if at.info != nil && !os.SameFile(at.info, info) {
		if rest := renamed(home, at.info); rest != "" {
			if _, _, err := scan(rest, at.offset, f, each); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return at, err
			}
		}
		at.offset = 0
	}
	if at.info != nil && os.SameFile(at.info, info) && info.Size() <= at.offset {
		return at, nil
	}
	_, next, err := scan(path, at.offset, f, each)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	return next, err
}

// renamed finds the file that was the newest under its later name.
func renamed(home string, was fs.FileInfo) string {
	paths, err := files(home, time.Time{})
	if err != nil {
		return ""
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, was) {
			return path
		}
	}
	return ""
}

// scan reads whole lines of a file from an offset. A line that is still being written is left for the next time.
func scan(path string, offset int64, f Filter, each func(Record)) (odd int, at place, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, place{}, err
	}
	defer file.Close()
	if at.info, err = file.Stat(); err != nil {
		return 0, place{}, err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return 0, place{}, err
	}
	at.offset = offset
	for in := bufio.NewReaderSize(file, 64<<10); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return odd, at, err
		}
		at.offset += int64(len(line))
		r, ok := parse(bytes.TrimSpace(line))
		switch {
		case !ok || len(line) > lineMost:
			odd++
		case f.wants(r):
			each(r)
		}
	}
}

// newest keeps the last few records.
type newest struct {
	most int
	each func(Record)
	ring []Record
	next int
}

func (n *newest) take(r Record) {
	switch {
	case n.most == 0:
		n.each(r)
	case len(n.ring) < n.most:
		n.ring = append(n.ring, r)
	default:
		n.ring[n.next] = r
		n.next = (n.next + 1) % n.most
	}
}

func (n *newest) flush() {
	for i := range n.ring {
		n.each(n.ring[(n.next+i)%len(n.ring)])
	}
}
