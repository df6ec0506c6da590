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

	"gatewayd/internal/procfs"
)

const (
	keeperVerb = "keeper"
	controlFD  = 3
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

// isPiped reports that this keeper was given the pipes of its child.
func isPiped() bool { return len(os.Args) > 3 && os.Args[3] == pipedWord }

// keeper is the state of one keeper process. Only the goroutine of keeperMain touches it.
type keeper struct {
	cmd     command
	self    procfs.Identity
	null    *os.File
	blank   *os.File // a file in the directory of records that has no name yet; nil where there are none such
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
	if len(os.Args) > 2 {
		k.blank = blankFile(os.Args[2])
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
	if err := k.store.writeFirst(k.record, k.blank); err != nil {
		return k.refuse("keeper", err)
	}
	if !k.told() {
		return k.forgo()
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

// told waits for the daemon's word, which it gives while it lives and knows that the run is on record.
func (k *keeper) told() bool {
	k.say(answer{OnRecord: true})
	var next order
	return k.decoder.Decode(&next) == nil && next.Go
}

// forgo ends a keeper whose daemon died before it said go.
func (k *keeper) forgo() bool {
	k.record.Reason, k.record.Error, k.record.Ended = DaemonGone, "the daemon ended before the program was started", now()
	_ = k.store.writeEnd(k.record, k.cmd.Sync)
	return false
}

// launch starts the leader with its three descriptors and lets go of the daemon's pipe.
func (k *keeper) launch() (step string, err error) {
	out, done, err := k.output(k.null)
	if err != nil {
		return "log", err
	}
	defer done()
	stdin, stderr := k.null.Fd(), out.Fd()
	if k.cmd.Piped {
		stdin, stderr = pipedInFD, pipedErrFD
	}
	k.leader, err = syscall.ForkExec(k.cmd.Path, k.cmd.Argv, &syscall.ProcAttr{
		Dir: k.cmd.Dir, Env: k.cmd.Env, Files: []uintptr{stdin, out.Fd(), stderr}, Sys: leaderAttr(&k.group),
	})
	if err != nil {
		return "exec", fmt.Errorf("start %s: %w", k.cmd.Path, err)
	}
	if k.cmd.Piped { // held here, they would never come to their end
		closeFD(pipedInFD)
		closeFD(pipedErrFD)
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
