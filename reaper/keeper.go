package reaper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

const (
	keeperVerb = "keeper"
	controlFD  = 3
	// drainTime is what the log gets to read what is left in the pipe, after nothing of the tree is left. Only a
	// process outside of the tree that was handed the pipe can keep it open longer.
	drainTime = 2 * time.Second
)

// Main runs the keeper and does not return when this process was started as one; otherwise it does nothing. It must
// be the first thing in main, before anything that costs time or memory, and in a TestMain of a package that
// starts children.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != keeperVerb {
		return
	}
	if !isSocket(controlFD) {
		fmt.Fprintln(os.Stderr, "gatewayd keeper is started by gatewayd itself and has no use alone")
		os.Exit(2)
	}
	// The thread that starts the leader must live as long as the keeper: see leaderAttr.
	runtime.LockOSThread()
	nameThread("gatewayd-keeper")
	// Not os.Exit: what the rest of the program has registered for its end has no place here, and under the race
	// detector costs each keeper a second.
	syscall.Exit(keeperMain())
}

// keeper is the state of one keeper process. Only the goroutine of keeperMain touches it.
type keeper struct {
	cmd     command
	self    procfs.Identity
	null    *os.File
	control *os.File
	decoder *json.Decoder
	store   store
	record  Record

	leader  int
	group   int                     // pidfd of the leader: names its process group for as long as that lives
	ended   chan syscall.WaitStatus // the leader's, once
	nothing chan struct{}           // closed when no descendant is left
	asked   <-chan ask
	logged  chan error // the end of the log, nil where there is none
}

// ask is a wish to end the tree, from whichever side.
type ask struct {
	reason Reason
	grace  time.Duration
}

func keeperMain() int {
	signals := takeSignals()
	closeInherited()
	control := os.NewFile(controlFD, "control")
	k := &keeper{control: control, decoder: json.NewDecoder(control), group: -1}
	if err := k.warmUp(); err != nil {
		k.refuse("keeper", err)
		return 1
	}
	var first order
	if err := k.decoder.Decode(&first); err != nil || first.Command == nil {
		return 0 // a spare whose daemon is gone
	}
	k.cmd = *first.Command
	k.store = store{dir: k.cmd.Records}
	if !k.start() {
		return 0
	}
	k.asked = k.listen(signals)
	k.supervise()
	return k.finish()
}

// warmUp does everything that needs no command, so that a spare has it behind it: what the first use of an encoder
// costs is a good part of a bare start.
func (k *keeper) warmUp() (err error) {
	if err := becomeSubreaper(); err != nil {
		return err
	}
	if k.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	if k.self, err = procfs.Self(); err != nil {
		return err
	}
	var sample order
	err = json.Unmarshal([]byte(`{"command":{"argv":["x"],"env":["x"]},"stop":{"grace":1}}`), &sample)
	return errors.Join(err, json.NewEncoder(io.Discard).Encode(answer{Started: &started{}, Failed: &failed{}, Ended: &Record{}}))
}

// takeSignals catches what must not end a keeper. They are caught and not ignored because a child inherits ignored
// signals, while caught ones are back at their defaults after exec. SIGPIPE matters most: when the daemon dies, the
// next write to its pipe would kill the keeper without a record.
func takeSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	return end
}

// start writes the start record before the child runs, so that there is no moment in which a child has no record,
// and once more with the child's identity, after the daemon has been told.
func (k *keeper) start() bool {
	k.record = Record{ID: k.cmd.ID, Keeper: k.self, Started: now(), Code: -1, Grace: k.cmd.Grace}
	if err := k.store.writeStart(k.record); err != nil {
		return k.refuse("keeper", err)
	}
	if step, err := k.launch(); err != nil {
		return k.refuse(step, err)
	}
	child, err := procfs.Identify(k.leader) // not reaped yet, so certain to be there
	k.record.Child = child
	k.say(answer{Started: &started{Keeper: k.self, Child: child, At: k.record.Started}})
	if err == nil {
		err = k.store.writeStart(k.record)
	}
	if err != nil {
		k.record.Error = err.Error()
	}
	k.ended, k.nothing = make(chan syscall.WaitStatus, 1), make(chan struct{})
	go k.reap()
	return true
}

// launch starts the leader with its three descriptors and lets go of the daemon's pipe.
func (k *keeper) launch() (step string, err error) {
	out, done, err := k.output(k.null)
	if err != nil {
		return "log", err
	}
	defer done()
	k.leader, err = syscall.ForkExec(k.cmd.Path, k.cmd.Argv, &syscall.ProcAttr{
		Dir: k.cmd.Dir, Env: k.cmd.Env, Files: []uintptr{k.null.Fd(), out.Fd(), out.Fd()}, Sys: leaderAttr(&k.group),
	})
	if err != nil {
		return "exec", fmt.Errorf("start %s: %w", k.cmd.Path, err)
	}
	return "", replaceFD(int(k.null.Fd()), 1)
}

// output says where the child writes: the daemon's pipe, the log's pipe, or nowhere.
func (k *keeper) output(null *os.File) (out *os.File, done func(), err error) {
	nothing := func() {}
	if k.cmd.Lifetime == EndsWithDaemon {
		return os.Stdout, nothing, nil
	}
	if k.cmd.LogPath == "" {
		return null, nothing, nil
	}
	log, err := openLog(k.cmd.LogPath, k.cmd.LogMax)
	if err != nil {
		return nil, nothing, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		log.Close()
		return nil, nothing, fmt.Errorf("make pipe of log: %w", err)
	}
	k.logged = make(chan error, 1)
	go func() { k.logged <- pump(read, log) }()
	return write, func() { write.Close() }, nil
}

// pump copies until nobody can write any more. A log that cannot be written (a full disk) costs its lines and not
// the child, which would otherwise block for ever on a full pipe.
func pump(from io.Reader, log *cappedLog) error {
	_, err := io.Copy(log, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
	}
	return errors.Join(err, log.Close())
}

// refuse ends a keeper whose child never ran.
func (k *keeper) refuse(step string, err error) bool {
	errno, _ := errors.AsType[syscall.Errno](err)
	k.record.Reason, k.record.Error, k.record.Ended = StartFailed, err.Error(), now()
	if k.record.ID != "" {
		_ = k.store.writeEnd(k.record, k.cmd.Sync)
	}
	k.say(answer{Failed: &failed{Step: step, Errno: errno, Text: err.Error()}})
	return false
}

// say may fail only when the daemon is gone, which listen hears of.
func (k *keeper) say(a answer) { _ = json.NewEncoder(k.control).Encode(a) }

// reap takes the status of every child there is: the leader, and all orphans of the tree, which come here because
// the keeper is a subreaper. When no child is left there can never be one again.
func (k *keeper) reap() {
	defer close(k.nothing)
	for {
		pid, err := nextExited()
		if err != nil {
			return
		}
		if status, ok := reapPid(pid); ok && pid == k.leader {
			k.ended <- status
		}
	}
}

// listen joins everything that can ask for the end.
func (k *keeper) listen(signals <-chan os.Signal) <-chan ask {
	asked := make(chan ask)
	go func() {
		for range signals {
			asked <- ask{Stopped, k.cmd.Grace}
		}
	}()
	go func() {
		for {
			var next order
			if err := k.decoder.Decode(&next); err != nil {
				break
			}
			if next.Stop != nil {
				asked <- ask{Stopped, next.Stop.Grace}
			}
		}
		if k.cmd.Lifetime == EndsWithDaemon {
			asked <- ask{DaemonGone, k.cmd.Grace}
		}
	}()
	if k.cmd.Deadline > 0 {
		time.AfterFunc(k.cmd.Deadline, func() { asked <- ask{Deadline, k.cmd.Grace} })
	}
	return asked
}

// supervise returns when nothing of the tree is left.
func (k *keeper) supervise() {
	grace := k.cmd.Grace
	select {
	case status := <-k.ended:
		k.judge(status)
	case a := <-k.asked:
		k.judgeEnded() // an end that came first is not ours
		if k.record.Reason == "" {
			k.record.Reason, grace = a.reason, a.grace
		}
	}
	if hasChildren() {
		k.endTree(grace)
	}
	<-k.nothing
	k.judgeEnded()
}

func (k *keeper) judgeEnded() {
	select {
	case status := <-k.ended:
		k.judge(status)
	default:
	}
}

// judge keeps code and signal apart: an exit with 143 is not a death by SIGTERM. A reason of ours that came first
// stays.
func (k *keeper) judge(status syscall.WaitStatus) {
	reason := Exited
	k.record.Code, k.record.Signal = status.ExitStatus(), 0
	if status.Signaled() {
		reason, k.record.Code, k.record.Signal = Signaled, -1, int(status.Signal())
	}
	if k.record.Reason == "" {
		k.record.Reason = reason
	}
}

// endTree asks once and then kills in rounds until nothing is left. A process that even SIGKILL does not end (stuck
// in the kernel, or of another user) keeps its keeper, and so its claim: the rounds only become rare.
func (k *keeper) endTree(grace time.Duration) {
	h := newHunt()
	h.term(k.below(true), 0)
	ended := k.waitGrace(grace)
	for !ended {
		killGroup(k.group)
		targets := k.below(h.rounds%4 == 0)
		h.kill(targets)
		ended = k.waitNothing(len(targets) == 0)
	}
	k.record.Rounds = h.rounds
}

// below lists the tree, by a look at everything or by the quick one.
func (k *keeper) below(everything bool) []procfs.Stat {
	if !everything {
		return offspring(k.record.Keeper.PID)
	}
	all, err := procfs.Processes()
	if err != nil {
		return offspring(k.record.Keeper.PID)
	}
	return descendants(all, k.record.Keeper.PID)
}

// waitGrace hears further wishes too: who asks again may only shorten the wait.
func (k *keeper) waitGrace(grace time.Duration) bool {
	end := time.Now().Add(grace)
	for {
		timer := time.After(time.Until(end))
		select {
		case <-k.nothing:
			return true
		case <-timer:
			return false
		case a := <-k.asked:
			if sooner := time.Now().Add(a.grace); sooner.Before(end) {
				end = sooner
			}
		}
	}
}

// waitNothing looks whether it is over. Where nobody was seen, the last ones are being reaped or moved, which takes
// a moment. Further wishes are heard and cannot make it faster.
func (k *keeper) waitNothing(moment bool) bool {
	timeout := time.After(0)
	if moment {
		timeout = time.After(firstPause)
	}
	for {
		select {
		case <-k.nothing:
			return true
		case <-timeout:
			return false
		case <-k.asked:
		}
	}
}

// finish writes the record, on the disk and to the daemon, and gives the exit code of the keeper itself.
func (k *keeper) finish() int {
	k.drainLog()
	k.record.UserTime, k.record.SystemTime, k.record.MaxRSS = treeUsage()
	k.record.Ended = now()
	err := k.store.writeEnd(k.record, k.cmd.Sync)
	if err != nil {
		k.record.Error = err.Error()
	}
	k.say(answer{Ended: &k.record})
	if err != nil {
		return 1
	}
	return 0
}

func (k *keeper) drainLog() {
	if k.logged == nil {
		return
	}
	select {
	case err := <-k.logged:
		if err != nil {
			k.record.Error = err.Error()
		}
	case <-time.After(drainTime):
		k.record.Error = "the log was cut: a process outside of the tree holds its pipe"
	}
}
