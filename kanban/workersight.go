package kanban

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
)

// WorkerSight is what can be seen of a run's process on this machine now.
type WorkerSight struct {
	Run        RunID      `json:"run_id"`
	Alive      bool       `json:"alive"`
	Reason     string     `json:"reason,omitempty"` // why it is not alive
	PID        int        `json:"pid,omitempty"`
	CPUPercent float64    `json:"cpu_percent"` // of one processor, over its whole life
	RSS        int64      `json:"memory_rss_bytes"`
	VMS        int64      `json:"memory_vms_bytes"`
	Threads    int        `json:"num_threads"`
	FDs        int        `json:"num_fds"`
	Status     string     `json:"status,omitempty"` // the kernel's letter: R, S, D, T …
	Created    *time.Time `json:"create_time,omitempty"`
	Command    string     `json:"cmdline,omitempty"`
}

const selectInspected = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.id = ?`

// InspectRun looks at the process of a run of this board.
func (b *Board) InspectRun(ctx context.Context, id RunID) (WorkerSight, error) {
	var found []Run
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		found, err = collect(c, scanRunRow, selectInspected, int64(id))
		return err
	})
	if err != nil {
		return WorkerSight{}, err
	}
	if len(found) == 0 {
		return WorkerSight{}, &problem.Error{
			Kind: problem.NotFound, Thing: fmt.Sprintf("run %d", id), What: "is not on this board", Fate: unchanged,
			Remedy: "list a card's runs with `gatewayd kanban runs CARD`", Err: mark{ErrNotFound},
		}
	}
	return found[0].Inspect(), nil
}

// Inspect looks at the process of a run. A pid that was given out again is not the worker, and is not shown as one.
func (r Run) Inspect() WorkerSight {
	s := WorkerSight{Run: r.ID}
	switch {
	case !r.Open():
		s.Reason = "the run has ended"
	case r.ClaimLock != "" && !HostLocal(r.ClaimLock):
		s.Reason = "it runs on another host: " + r.ClaimLock
	case r.WorkerPID == 0:
		s.Reason = "no process is on record for it yet"
	case !procfs.LivesAs(r.WorkerPID, r.WorkerStarted):
		s.Reason = "its process is gone"
	default:
		s.see(r)
	}
	return s
}

func (s *WorkerSight) see(r Run) {
	usage, err := procfs.ReadUsage(r.WorkerPID)
	if err != nil {
		s.Reason = "its process cannot be looked at: " + err.Error()
		return
	}
	s.Alive, s.PID, s.RSS, s.VMS, s.Threads, s.Status = true, r.WorkerPID, usage.RSS, usage.VMS, usage.Threads, string(usage.State)
	if !usage.Created.IsZero() {
		s.Created = &usage.Created
		if age := time.Since(usage.Created); age > 0 {
			s.CPUPercent = 100 * usage.CPU.Seconds() / age.Seconds()
		}
	}
	s.FDs, _ = procfs.NumFDs(r.WorkerPID) // 0 where it may not be counted
	s.Command, _ = procfs.Command(r.WorkerPID)
}
