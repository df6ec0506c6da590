package chamber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Role is what one process does until it is told to stop.
type Role func(ctx context.Context, a *Actor) error

// roles are the words that `gatewayd selftest role` takes. A role that is not told otherwise works until SIGTERM and
// ends with code 0; one that cannot go on says why in one error event and ends with code 1.
func roles() map[string]Role {
	return map[string]Role{
		"gateway":  gatewayRole,
		"terminal": terminalRole,
		"plain":    plainRole,
		"reader":   readerRole,
		"churn":    churnRole,
		"indexer":  indexerRole,
		"rebuild":  rebuildRole,
		"board":    boardRole,
		"watcher":  watcherRole,
		"damage":   damageRole,
		"lease":    leaseRole,
		"thief":    thiefRole,
		"locker":   lockerRole,
		"prober":   proberRole,
		"backup":   backupRole,
		"snapshot": snapshotRole,
		"ruin":     ruinRole,
		"salvage":  salvageRole,
		"audit":    auditRole,
		"agent":    agentRole,
		"folds":    foldsRole,
		"census":   censusRole,
	}
}

// Params are what a role is told. They travel as one JSON argument.
type Params struct {
	Home    string // holds state.db, kanban.db and ledgers/
	Tag     string // of this part: its sessions and tokens begin with it
	Seed    uint64
	Busy    bool          `json:",omitempty"` // a lock may be waited out: the mode is DELETE
	Stray   int           `json:",omitempty"` // each so many writes the three files are opened and closed; 0 never
	Heal    bool          `json:",omitempty"` // a lost generation is survived: close, open again, go on
	Parted  bool          `json:",omitempty"` // rows were salvaged into conversations that had gone on
	Full    bool          `json:",omitempty"` // a full disk is survived: go on when there is space again
	Rest    time.Duration `json:",omitempty"` // between two writes
	TTL     time.Duration `json:",omitempty"` // of leases
	Session string        `json:",omitempty"` // for roles that work on one that they did not make
	Talk    Talk          // for agents
}

// StorePath and the two below are where the files of a chamber are.
func (p Params) StorePath() string { return filepath.Join(p.Home, "state.db") }

// BoardPath is the board's file.
func (p Params) BoardPath() string { return filepath.Join(p.Home, "kanban.db") }

// Ledgers is the directory of the ledgers.
func (p Params) Ledgers() string { return filepath.Join(p.Home, "ledgers") }

// Event is one line of a role's output: what has just become true.
type Event struct {
	Event string `json:"event"` // ready, acked, read, cycled, halted, healed, error, ended, and what roles say beside
	Count int    `json:"count,omitempty"`
	Mode  string `json:"mode,omitempty"`  // of the journal, with ready
	Class string `json:"class,omitempty"` // of an error
	Text  string `json:"text,omitempty"`
	// Audit is the answer of the role audit.
	Audit *Audit     `json:"audit,omitempty"`
	Folds *FoldAudit `json:"folds,omitempty"` // the same of the role folds
}

// Actor is a role's view of itself.
type Actor struct {
	Params
	mu    sync.Mutex
	out   io.Writer
	rng   *rand.Rand
	waits int
}

// busyPatience is how long a lock is waited out in DELETE, where readers and writers exclude each other.
const busyPatience = 90 * time.Second

// RunRole is the whole life of a role's process. It ends early when the process that started it has ended.
func RunRole(ctx context.Context, name, params string, out io.Writer) error {
	role, ok := roles()[name]
	if !ok {
		return fmt.Errorf("there is no role %q", name)
	}
	a := &Actor{out: out}
	if err := json.Unmarshal([]byte(params), &a.Params); err != nil {
		return fmt.Errorf("read the parameters of role %s: %w", name, err)
	}
	a.rng = rand.New(rand.NewPCG(a.Seed, uint64(len(name))))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go orphaned(ctx, cancel)
	if err := unlessStopped(ctx, role(ctx, a)); err != nil {
		a.fail(err)
		return err
	}
	a.Say(Event{Event: "ended", Count: a.waits})
	return nil
}

// orphaned ends a role whose parent has died: nobody would stop it any more.
func orphaned(ctx context.Context, end context.CancelCauseFunc) {
	parent := os.Getppid()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				end(errors.New("the process that started this role is gone"))
				return
			}
		}
	}
}

// Say writes one event line.
func (a *Actor) Say(e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(line, '\n')) // nobody listens any more: the signal that ends this role is on its way
}

// fail says why a role cannot go on, by class: the harness expects an error by its class and never by its text.
func (a *Actor) fail(err error) {
	a.Say(Event{Event: "error", Class: classOf(err), Text: err.Error()})
}

// classOf is the class of an error of SQLite's, the kind of another one that a person may read.
func classOf(err error) string {
	if c := sqlite.ClassOf(err); c != sqlite.Other {
		return string(c)
	}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return string(p.Kind)
	}
	if errors.Is(err, errShrunk) {
		return "rows_lost"
	}
	return string(sqlite.Other)
}

// through runs fn, again while a lock is in its way in DELETE, and counts how often. In WAL a lock that surfaces is an
// error like any other.
func (a *Actor) through(ctx context.Context, fn func() error) error {
	limit := time.Now().Add(busyPatience)
	for {
		err := fn()
		if !a.Busy || sqlite.ClassOf(err) != sqlite.Busy || time.Now().After(limit) {
			return err
		}
		a.mu.Lock()
		a.waits++
		a.mu.Unlock()
		if err := a.pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// rest is the pause between two writes: without one, one writer would be all there is.
func (a *Actor) rest(ctx context.Context) error {
	d := a.Rest
	if d == 0 {
		d = 4 * time.Millisecond
	}
	if a.Busy {
		d += 20 * time.Millisecond
	}
	a.mu.Lock()
	d = d/2 + time.Duration(a.rng.Int64N(int64(d)))
	a.mu.Unlock()
	return a.pause(ctx, d)
}

func (a *Actor) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
