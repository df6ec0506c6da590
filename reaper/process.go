package reaper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// startTime bounds the hand-shake with a keeper on a machine that is very busy; without it a keeper that was
// stopped by a person would block its caller for good.
const startTime = 30 * time.Second

// Process is one run: a keeper and the tree below it.
type Process struct {
	reaper   *Reaper
	id       string
	store    store // of its record
	lifetime Lifetime
	ready    chan struct{} // closed when what follows is set, or the run was given up
	keeper   procfs.Identity
	child    procfs.Identity
	begun    Record // what is known from the start, for the record of a lost keeper

	pidfd   *os.File
	mu      sync.Mutex
	control *os.File // nil for an adopted run
	decoder *json.Decoder

	output *drain
	done   chan struct{}
	record Record // set before done is closed
}

func newProcess(r *Reaper, id string) *Process {
	return &Process{reaper: r, id: id, store: r.store, ready: make(chan struct{}), done: make(chan struct{})}
}

// ID gives the run's id.
func (p *Process) ID() string { return p.id }

// Child identifies the leader of the tree. Of a run that was adopted in the very moment of its start it is the zero Identity
// until the keeper has written it down.
func (p *Process) Child() procfs.Identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.child.Known() && p.keeper.Known() {
		if again, err := p.store.latest(p.id); err == nil {
			p.child = again.Child
		}
	}
	return p.child
}

// Keeper identifies the keeper.
func (p *Process) Keeper() procfs.Identity { return p.keeper }

func (p *Process) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// Done is closed when nothing of the tree is left and the record is there.
func (p *Process) Done() <-chan struct{} { return p.done }

// Record says how the run ended. Before Done is closed it blocks.
func (p *Process) Record() Record {
	<-p.done
	return p.record
}

// Alive reports that the keeper runs, and so perhaps its tree.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return p.keeper.Alive()
	}
}

// Stop asks the keeper to end the tree: SIGTERM, grace, then SIGKILL until nothing is left. It does not wait and may
// be called at any time and again; a later call can only shorten the grace. An adopted run is asked by a signal
// and takes the grace of its own Spec.
func (p *Process) Stop(grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control != nil && json.NewEncoder(p.control).Encode(order{Stop: &stop{Grace: grace}}) == nil {
		return
	}
	if err := signalFile(p.pidfd, syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.reaper.log.Warn("keeper could not be asked to stop", "run", p.id, "pid", p.keeper.PID, "error", err)
	}
}

// errKeeperDied says that a keeper ended before it answered, for no reason of the command's.
var errKeeperDied = errors.New("keeper died before it answered")

// hand gives a keeper its command and waits for the answer.
func (p *Process) hand(ctx context.Context, k *keeperProc, cmd command, output io.Writer) error {
	p.decoder = json.NewDecoder(k.control)
	reply, err := p.shake(ctx, k.control, cmd)
	switch {
	case err != nil && ctx.Err() != nil:
		p.abandon(k)
		return fmt.Errorf("start %s: %w", p.id, context.Cause(ctx))
	case err != nil:
		p.abandon(k)
		return startError(cmd.Argv[0], &problem.Error{
			Kind: problem.Unavailable, Thing: "keeper of " + quote(p.id), What: "gave no answer",
			Err: fmt.Errorf("%w: %w", errKeeperDied, err), Fate: "nothing was left running",
			Remedy: "look for what killed it: memory, limits, or another program",
		})
	case reply.Failed != nil:
		<-k.exited
		k.close()
		p.reaper.forgetQuietly(p.store, p.id)
		return startError(cmd.Argv[0], reply.Failed.problem(cmd))
	}
	p.keeper, p.child, p.pidfd, p.control = reply.Started.Keeper, reply.Started.Child, k.pidfd, k.control
	p.begun = Record{ID: p.id, Keeper: p.keeper, Child: p.child, Started: reply.Started.At, Grace: cmd.Grace}
	p.output = startDrain(k.output, output)
	go p.watch(k)
	return nil
}

func (p *Process) shake(ctx context.Context, control *os.File, cmd command) (answer, error) {
	_ = control.SetDeadline(time.Now().Add(startTime))
	stopped := context.AfterFunc(ctx, func() { _ = control.SetDeadline(time.Unix(1, 0)) })
	defer stopped()
	reply, err := p.ask(control, order{Command: &cmd})
	if err == nil && reply.OnRecord {
		reply, err = p.ask(control, order{Go: true})
	}
	if err != nil {
		return answer{}, err
	}
	if !stopped() {
		return answer{}, context.Cause(ctx)
	}
	if reply.Started == nil && reply.Failed == nil {
		return answer{}, errors.New("unknown answer")
	}
	return reply, control.SetDeadline(time.Time{})
}

func (p *Process) ask(control *os.File, o order) (reply answer, err error) {
	if err := json.NewEncoder(control).Encode(o); err != nil {
		return answer{}, fmt.Errorf("send command: %w", err)
	}
	if err := p.decoder.Decode(&reply); err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	return reply, nil
}

// abandon ends a keeper that did not answer in time or at all, with whatever it may have started.
func (p *Process) abandon(k *keeperProc) {
	_ = signalFile(k.pidfd, syscall.SIGKILL)
	<-k.exited
	p.reaper.sweep(Record{ID: p.id}, 0)
	k.close()
	p.reaper.forgetQuietly(p.store, p.id)
}

// problem tells a failed start in the words for people.
func (f *failed) problem(cmd command) error {
	err := error(f.Errno)
	if f.Errno == 0 {
		err = errors.New(f.Text)
	}
	switch f.Step {
	case "exec":
		if _, gone := os.Stat(cmd.Dir); gone != nil {
			return dirProblem(cmd.Dir, gone)
		}
		return programProblem(cmd.Argv[0], "", err)
	case "log":
		return &problem.Error{
			Kind: problem.Unavailable, Thing: "log " + cmd.LogPath, What: "cannot be written", Err: err,
			Fate: "nothing was started", Remedy: "make its directory writable and look for free space",
		}
	}
	return &problem.Error{
		Kind: problem.Unavailable, Thing: "keeper of " + quote(cmd.ID), What: "could not begin: " + f.Text, Err: err,
		Fate: "nothing was started", Remedy: "look at " + cmd.Records + " and at the free space there",
	}
}

// watch waits for the end and settles what it was. Last words are said when nothing of the tree is left and the record
// was written; that the keeper itself, a large process, then takes its time to exit keeps nobody waiting who waits
// for a command. A worker's keeper is seen gone first, and so is one without last words, whose tree is ended here.
func (p *Process) watch(k *keeperProc) {
	words, told := p.lastWords()
	if !told || p.lifetime == Outlives {
		<-k.exited
	}
	record := p.reaper.settle(p.store, p.begun, func() (Record, bool) { return words, told })
	p.output.finish()
	p.mu.Lock()
	p.control = nil
	k.close()
	p.mu.Unlock()
	p.reaper.parting(k, true)
	p.end(record)
	<-k.exited
	p.reaper.parting(k, false)
}

// end closes the run for everybody who waits.
func (p *Process) end(record Record) {
	p.record = record
	p.reaper.leave(p)
	close(p.done)
}

// lastWords is the record as the keeper told it, for the case that its disk took none. It blocks until the keeper ends.
func (p *Process) lastWords() (Record, bool) {
	var last answer
	if err := p.decoder.Decode(&last); err != nil || last.Ended == nil {
		return Record{}, false
	}
	return *last.Ended, true
}

// settle finds out how a run whose keeper is gone ended. Without a record the keeper was killed: its tree is ended
// here, and the record is written for it.
func (r *Reaper) settle(s store, begun Record, lastWords func() (Record, bool)) Record {
	record, err := s.end(begun.ID)
	if err == nil {
		return record
	}
	if !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("exit record cannot be read", "run", begun.ID, "error", err)
	}
	record, ok := lastWords()
	if !ok {
		record = r.lost(begun)
	}
	if err := s.writeEnd(record, true); err != nil {
		r.log.Error("exit record cannot be written", "run", begun.ID, "error", err)
	}
	return record
}

func (r *Reaper) lost(begun Record) Record {
	why := "the keeper was killed; how the program ended is not known"
	rounds, left := 0, 0
	if begun.Keeper.Boot == procfs.BootID() {
		rounds, left = r.sweep(begun, begun.Grace)
	} else {
		why = "the machine was started anew; how the program ended is not known"
	}
	if left > 0 {
		why += fmt.Sprintf("; %d of its processes could not be ended", left)
	}
	record := lostRecord(begun, why)
	record.Rounds = rounds
	r.log.Warn("keeper was lost", "run", begun.ID, "pid", begun.Keeper.PID, "rounds", rounds, "left", left)
	return record
}

func (r *Reaper) forgetQuietly(s store, id string) {
	if err := s.forget(id); err != nil {
		r.log.Warn("record of a failed start stays", "run", id, "error", err)
	}
}
