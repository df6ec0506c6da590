package reaper

import (
	"os"
	"slices"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

const (
	// sweepLimit bounds the killing of a lost tree; what is left then is stuck in the kernel or belongs to somebody
	// else, and the record says so.
	sweepLimit = 10 * time.Second
	// A tree is gone when so many looks in a row have found nothing. One look may miss a process: in the middle of
	// an exec it shows no environment, and so no tag; in a chain of forks it may be born behind the look's back.
	quietLooks = 20
	quietPause = 5 * time.Millisecond
	// zombieAge is how long a dead child in our own session is left to whoever may have started it through os/exec.
	zombieAge = 10 * time.Second
)

// sweep ends what a killed keeper has left, and says in how many rounds and how many it could not end.
func (r *Reaper) sweep(begun Record, grace time.Duration) (rounds, left int) {
	defer r.reapUnknown()
	h := newHunt()
	if targets := r.orphans(begun, procfs.Processes, false); grace > 0 && len(targets) > 0 {
		h.term(targets, grace)
	}
	quiet := 0
	for end := time.Now().Add(sweepLimit); quiet < quietLooks; {
		targets := r.orphans(begun, ownOffspring, false)
		if len(targets) == 0 {
			targets = r.orphans(begun, procfs.Processes, quiet >= quietLooks/2)
		}
		if len(targets) == 0 {
			quiet++
			<-time.After(quietPause)
			continue
		}
		if time.Now().After(end) {
			return h.rounds, len(targets)
		}
		quiet = 0
		h.kill(targets)
	}
	return h.rounds, 0
}

// ownOffspring is the quick look: most of what a lost keeper leaves comes to this process.
func ownOffspring() ([]procfs.Stat, error) { return offspring(os.Getpid()), nil }

// orphans finds the living processes of a tree whose keeper is gone, and everything below them.
//
//   - The tag tells them wherever they are: below us, because we are a subreaper, or, when the keeper had outlived an
//     earlier daemon, below pid 1.
//   - The leader's session tells those that cleared their environment. It counts only below us: elsewhere its
//     number may have been given out again.
//   - A child of ours that nobody of ours started, in a foreign session and younger than the keeper, can only have
//     come from a keeper's tree. To pid 1 every orphan of a container comes, so there it must also have no
//     environment at all, and lastingly: that is what insist means.
func (r *Reaper) orphans(begun Record, look func() ([]procfs.Stat, error), insist bool) []procfs.Stat {
	children.mu.Lock()
	defer children.mu.Unlock()
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		return nil
	}
	all, err := look()
	if err != nil {
		return nil
	}
	ours := map[int]bool{}
	for _, stat := range descendants(all, self.PID) {
		ours[stat.PID] = true
	}
	var roots []int
	for _, stat := range all {
		if stat.PID == self.PID || children.known[stat.PID] != nil || stat.Start < begun.Keeper.Start || notAProgram(stat) {
			continue
		}
		tagged, bare := tagOf(stat.PID, begun.ID)
		inSession := ours[stat.PID] && begun.Child.Known() && stat.SID == begun.Child.PID
		stranger := r.strange(stat, self) && !r.isForeign(stat) && (self.PID != 1 || bare && insist)
		if tagged || inSession || stranger {
			roots = append(roots, stat.PID)
		}
	}
	return gather(all, roots)
}

// notAProgram: the dead, and the kernel's own threads, which are children of pid 2.
func notAProgram(stat procfs.Stat) bool { return stat.Dead() || stat.PPID == 2 }

func tagOf(pid int, id string) (tagged, bare bool) {
	env, err := procfs.Environ(pid)
	return slices.Contains(env, TagKey+"="+id), err == nil && len(env) == 0
}

// gather gives the roots that live and all that is below them, each once.
func gather(all []procfs.Stat, roots []int) []procfs.Stat {
	wanted := map[int]bool{}
	for _, pid := range roots {
		wanted[pid] = true
	}
	for _, stat := range descendants(all, roots...) {
		wanted[stat.PID] = true
	}
	var found []procfs.Stat
	for _, stat := range all {
		if wanted[stat.PID] && !stat.Dead() {
			found = append(found, stat)
		}
	}
	return found
}

// strange is a child that this process has by adoption: what os/exec starts stays in our session.
func (r *Reaper) strange(stat, self procfs.Stat) bool {
	return stat.PPID == self.PID && stat.SID != self.SID && children.known[stat.PID] == nil
}

func (r *Reaper) isForeign(stat procfs.Stat) bool {
	start, ok := r.foreign[stat.PID]
	return ok && start == stat.Start
}

// reapUnknown takes the dead children that nobody waits for: orphans that came to us as subreaper or as pid 1. They
// are found by list and taken by pid. Asking wait for any child would steal from os/exec the status of its own; and
// a look without taking shows the same dead child again and again, and hides those behind it. It says whether
// some are left for later.
func (r *Reaper) reapUnknown() (later bool) {
	children.mu.Lock()
	defer children.mu.Unlock()
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil || mutation.On("pid-one-does-not-reap") {
		return false
	}
	pids, err := procfs.Children(self.PID)
	if err != nil {
		return false
	}
	aging := map[int]time.Time{}
	for _, pid := range pids {
		stat, err := procfs.ReadStat(pid)
		if err != nil || stat.State != 'Z' || children.known[pid] != nil {
			continue
		}
		if !r.isForeign(stat) && !r.strange(stat, self) && !r.aged(stat, self, aging) {
			continue
		}
		if _, ok := reapPid(pid); ok {
			delete(aging, pid)
			r.log.Debug("orphan reaped", "pid", pid, "comm", stat.Comm)
		}
	}
	r.aging = aging
	return len(aging) > 0
}

// aged says whether a dead child in our own session was left unclaimed for so long that nobody will ask for it. Only
// pid 1 must take these: the orphans of what its container's start script had begun.
func (r *Reaper) aged(stat, self procfs.Stat, aging map[int]time.Time) bool {
	if self.PID != 1 {
		return false
	}
	first, ok := r.aging[stat.PID]
	if !ok {
		first = time.Now()
	}
	aging[stat.PID] = first
	return time.Since(first) >= zombieAge
}
