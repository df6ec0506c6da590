package faultfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Call is a kind of call that can fail. Several may be joined by |.
type Call int

// The calls. A directory is synced after a journal was made or, where the library is told to, deleted.
const (
	Open Call = 1 << iota
	Read
	Write
	Sync
	Truncate
	Delete
	SyncDir

	Any = Open | Read | Write | Sync | Truncate | Delete | SyncDir
)

// Struck is the mark of a call that failed.
const Struck = "fault"

// Fault makes calls fail.
type Fault struct {
	On    Call
	File  string // the end of the name: "-wal", "-journal", "" all
	After int    // so many calls of these go well first
	Times int    // so many fail then; 0 fails until Heal
	Err   error  // an errno; nil makes reads come up short and nothing else

	seen, hits int
}

// Inject adds a fault to those in force.
func (d *Disk) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Heal ends all faults and says how many calls failed by them.
func (d *Disk) Heal() (hits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.faults {
		hits += f.hits
	}
	d.faults = nil
	return hits
}

// strike asks whether this call fails. The caller holds the lock.
func (d *Disk) strike(call Call, path string) (*Fault, error) {
	for _, f := range slices.Clone(d.faults) {
		if f.On&call == 0 || !strings.HasSuffix(path, f.File) {
			continue
		}
		f.seen++
		if f.seen <= f.After || f.Times > 0 && f.hits == f.Times {
			continue
		}
		f.hits++
		d.log = append(d.log, event{kind: marked, name: Struck})
		if f.Err == nil {
			return f, nil
		}
		return f, &os.PathError{Op: "fault", Path: filepath.Base(path), Err: f.Err}
	}
	return nil, nil
}
