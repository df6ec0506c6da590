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
	if mine := r.claim(p); mine != p {
		<-mine.ready
		if !mine.begun.Keeper.Known() {
			return nil, fmt.Errorf("adopt %s: %w", id, ErrNoRecord) // it was given up
		}
		return mine, nil
	}
	defer close(p.ready)
	if err := r.adopt(p); err != nil {
		r.leave(p)
		return nil, err
	}
	return p, nil
}

// claim enters p, unless this daemon has the run already.
func (r *Reaper) claim(p *Process) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine := r.live[p.id]; mine != nil {
		return mine
	}
	r.live[p.id] = p
	return p
}

func (r *Reaper) adopt(p *Process) error {
	begun, err := p.find(r.stores())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("adopt %s: %w", p.id, ErrNoRecord)
	}
	if err != nil {
		return fmt.Errorf("adopt run: %w", err)
	}
	p.begun, p.keeper, p.child = begun, begun.Keeper, begun.Child
	if !begun.Ended.IsZero() {
		p.end(begun)
		return nil
	}
	p.pidfd, err = openIdentity(begun.Keeper)
	if err != nil { // gone, or another process by now: never to be signalled
		p.end(r.settle(p.store, begun, noLastWords))
		return nil
	}
	go p.watchAdopted()
	return nil
}

// find looks for the record and notes where it is.
func (p *Process) find(stores []store) (begun Record, err error) {
	for _, p.store = range stores {
		if begun, err = p.store.latest(p.id); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return begun, err
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
	p.begun.Child = p.Child()
	record := p.reaper.settle(p.store, p.begun, noLastWords)
	p.pidfd.Close()
	p.end(record)
}
