package chamber

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
)

// Place is what a directory is like as a home for a store, before anybody is killed in it.
type Place struct {
	Dir        string        `json:"dir"`
	FileSystem string        `json:"file_system"`
	Mode       string        `json:"journal_mode"`
	Reason     string        `json:"journal_reason"`
	Sync       time.Duration `json:"sync_ns"` // median of one durable overwrite of 4 KiB
	Locks      string        `json:"locks"`   // what a second process met while the first held the lock
	Findings   []string      `json:"findings,omitempty"`
}

// syncs is how many durable overwrites the median is taken from.
const syncs = 101

// A sync below fastest has not waited for anything that outlives a power cut; above slowest every answer is felt.
const (
	fastestSync = 15 * time.Microsecond
	slowestSync = 50 * time.Millisecond
)

// Look says what the chamber's directory is like. Afterwards the chamber's mode is the one that was found.
func (c *Chamber) Look(ctx context.Context) (Place, error) {
	p := Place{Dir: c.Dir, FileSystem: "unknown"}
	if mount, err := procfs.MountOf(c.Dir); err == nil {
		p.FileSystem = mount.FSType
	}
	var err error
	if p.Sync, err = syncTime(c.Dir); err != nil {
		return p, err
	}
	return p, c.tryLocks(ctx, &p)
}

func syncTime(dir string) (time.Duration, error) {
	floor, err := sqlite.NewFloor(dir)
	if err != nil {
		return 0, err
	}
	defer floor.Close()
	took := make([]time.Duration, syncs)
	for i := range took {
		began := time.Now()
		if err := floor.Overwrite(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[syncs/2], nil
}

// SyncWords judges how long a sync takes; it is a fact and no finding, because only a power cut could prove it.
func (p Place) SyncWords() string {
	took := p.Sync.Round(time.Microsecond)
	switch {
	case p.Sync < fastestSync:
		return fmt.Sprintf("a sync takes %v: faster than a disk can be, so what is here may be gone after a power cut", took)
	case p.Sync > slowestSync:
		return fmt.Sprintf("a sync takes %v: safe, but each answer waits for several", took)
	}
	return fmt.Sprintf("a sync takes %v, as a disk's should", took)
}

// tryLocks holds the write lock in one process and tries to take it in another, before and after the first one opened
// and closed the files once more.
func (c *Chamber) tryLocks(ctx context.Context, p *Place) error {
	holder, err := c.start(Part{Role: "locker"}, c.Seed)
	if err != nil {
		return err
	}
	defer holder.stop(ctx)
	if err := holder.await(ctx, "locked", 1); err != nil {
		return err
	}
	ready := holder.last("ready")
	p.Mode, p.Reason, p.Locks = ready.Mode, ready.Text, "they hold between processes, and a stray close does not cancel them"
	if c.Mode == "" {
		c.Mode = ready.Mode
	}
	for i, when := range []string{"while another process holds it", "after the holder opened and closed the file"} {
		entered, err := c.probe(ctx)
		if err != nil {
			return err
		}
		if entered {
			p.Locks = "the write lock was taken " + when
			p.Findings = append(p.Findings, p.Locks)
		}
		if err := holder.proc.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		if err := holder.await(ctx, "strayed", i+1); err != nil {
			return err
		}
	}
	return nil
}

// probe reports whether a second process came past the lock.
func (c *Chamber) probe(ctx context.Context) (entered bool, err error) {
	p, err := c.start(Part{Role: "prober"}, c.Seed)
	if err != nil {
		return false, err
	}
	select {
	case <-p.proc.Done():
	case <-ctx.Done():
		p.kill()
		return false, context.Cause(ctx)
	}
	if p.count("entered") > 0 {
		return true, nil
	}
	if e := p.last("error"); e.Class != string(sqlite.Busy) {
		return false, fmt.Errorf("try the lock: %s", p.trouble())
	}
	return false, nil
}
