package reaper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	endSuffix   = ".json"
	startSuffix = ".start.json"
)

// store is the directory of records: <id>.start.json from the start on, <id>.json from the end on.
type store struct{ dir string }

// Starts are not synced: after a loss of power no process is left that they could describe.
func (s store) writeStart(r Record) error { return s.write(r.ID+startSuffix, r, false) }

// writeFirst is writeStart without the making of a file, which is the dear part of it: the blank file gets its name
// when it is whole. Where that cannot be, the usual way says why or works.
func (s store) writeFirst(r Record, blank *os.File) error {
	if blank == nil {
		return s.writeStart(r)
	}
	defer blank.Close()
	data, err := json.Marshal(r)
	if err == nil {
		_, err = blank.Write(append(data, '\n'))
	}
	if err == nil {
		err = nameFile(blank, filepath.Join(s.dir, r.ID+startSuffix))
	}
	if err != nil {
		return s.writeStart(r)
	}
	return nil
}

func (s store) writeEnd(r Record, sync bool) error { return s.write(r.ID+endSuffix, r, sync) }

// write is atomic: a reader sees the old file, none, or the whole new one.
func (s store) write(name string, r Record, sync bool) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	temp, err := os.CreateTemp(s.dir, "."+name+".*")
	if err != nil {
		return fmt.Errorf("create record: %w", err)
	}
	_, err = temp.Write(append(data, '\n'))
	if err == nil && sync {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(s.dir, name))
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("write record: %w", err)
	}
	if !sync {
		return nil
	}
	return syncDir(s.dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open records: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync records: %w", err)
	}
	return nil
}

// end reads how a run ended; fs.ErrNotExist while it has not.
func (s store) end(id string) (Record, error) { return s.read(id, endSuffix) }

func (s store) start(id string) (Record, error) { return s.read(id, startSuffix) }

func (s store) read(id, suffix string) (Record, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, id+suffix))
	if err != nil {
		return Record{}, fmt.Errorf("read record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("read record %s%s: %w", id, suffix, err)
	}
	return r, nil
}

// known reports that the id is taken by a run that was not forgotten yet.
func (s store) known(id string) bool {
	for _, suffix := range []string{startSuffix, endSuffix} {
		if _, err := os.Lstat(filepath.Join(s.dir, id+suffix)); err == nil {
			return true
		}
	}
	return false
}

// list gives one record per run: the end where there is one, else the start.
func (s store) list() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	var records []Record
	var broken []error
	seen := map[string]bool{}
	for _, entry := range entries {
		id, suffix, ok := strings.Cut(entry.Name(), ".")
		if !ok || seen[id] || idPattern.FindString(id) == "" || !strings.HasSuffix("."+suffix, endSuffix) {
			continue
		}
		seen[id] = true
		r, err := s.latest(id)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		records = append(records, r)
	}
	return records, errors.Join(broken...)
}

func (s store) latest(id string) (Record, error) {
	r, err := s.end(id)
	if errors.Is(err, fs.ErrNotExist) {
		return s.start(id)
	}
	return r, err
}

// forget removes the start first: a crash in between leaves a run that has ended, never one that seems to go on.
func (s store) forget(id string) error {
	for _, suffix := range []string{startSuffix, endSuffix} {
		err := os.Remove(filepath.Join(s.dir, id+suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget record: %w", err)
		}
	}
	return nil
}

func lostRecord(start Record, why string) Record {
	r := start
	r.Code, r.Signal, r.Reason, r.Error = -1, 0, KeeperLost, why
	r.Ended = now()
	return r
}

// now is in UTC: a record is read by machines, and a keeper has no time zone in its environment.
func now() time.Time { return time.Now().UTC() }
