package reaper

import (
	"os"
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

// drainTime is what the log gets to read what is left in the pipe, after nothing of the tree is left. Only a
// process outside of the tree that was handed the pipe can keep it open longer.
const drainTime = 2 * time.Second

// ask is a wish to end the tree, from whichever side.
type ask struct {
	reason Reason
	grace  time.Duration
}

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
