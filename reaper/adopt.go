package reaper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gatewayd/internal/procfs"
)

// Adopt takes up a run of an earlier daemon life. If it goes on, Done closes when its keeper ends; if it ended while
// nobody looked, Done is closed already. A keeper that was lost meanwhile is settled here, its tree included, which
// may take the run's grace. ErrNoRecord says that there is no such run. A run of this life is given as it is.
func (r *Reaper) Adopt(id string) (*Process, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	p := newProcess(r, id)
	r.mu.Lock()
	if mine := r.live[id]; mine != nil {
		r.mu.Unlock()
		return mine, nil
	}
	r.live[id] = p
	r.mu.Unlock()
	if err := r.adopt(p); err != nil {
		r.leave(p)
		return nil, err
	}
	return p, nil
}

func (r *Reaper) adopt(p *Process) error {
	begun, err := r.store.latest(p.id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("adopt %s: %w", p.id, ErrNoRecord)
	}
	if err != nil {
		return fmt.Errorf("adopt run: %w", err)
	}
	p.begun, p.keeper, p.child = begun, begun.Keeper, begun.Child
	if !begun.Ended.IsZero() {
		p.close(begun)
		return nil
	}
	p.pidfd, err = openIdentity(begun.Keeper)
	if err != nil { // gone, or another process by now: never to be signalled
		p.close(r.settle(begun, noLastWords))
		return nil
	}
	go p.watchAdopted()
	return nil
}

// openIdentity opens the pidfd of a process that must be the one that is meant, and alive.
func openIdentity(id procfs.Identity) (*os.File, error) {
	if !id.Alive() {
		return nil, os.ErrProcessDone
	}
	fd, err := openVerified(id.PID, id.Start)
	if err != nil {
		return nil, err
	}
	return pidfdFile(fd), nil
}

func noLastWords() (Record, bool) { return Record{}, false }

func (p *Process) watchAdopted() {
	_ = waitExit(p.pidfd)
	record := p.reaper.settle(p.begun, noLastWords)
	p.pidfd.Close()
	p.close(record)
}

// close ends the run for everybody who waits.
func (p *Process) close(record Record) {
	p.record = record
	p.reaper.leave(p)
	close(p.done)
}
