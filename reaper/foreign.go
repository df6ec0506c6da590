package reaper

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// Foreign is a worker that no keeper of this daemon watches: another program started it, or a daemon with another home.
type Foreign struct {
	PID         int
	Fingerprint string // as boards keep it; only one with boot, container and start is ever signalled
	// Marks are words KEY=VALUE that stand together in the environment of all that the worker started, so that what left
	// its session and its parents is found too. They count only beside a leader that was verified.
	Marks []string
	// Tag is the id of the keeper that it has, if another gatewayd started it. It names one run for good, so it counts also
	// where the leader is gone or was never written down.
	Tag string
}

// Departure says how the end of a foreign worker went.
type Departure struct {
	Attempted bool // it was the process that is meant, and it was signalled
	Killed    bool // SIGTERM was not enough
	Left      int  // its processes that live; 0 = nothing of the tree is left
}

// End ends the whole tree: SIGTERM, the grace, then SIGKILL in rounds until nothing is left. It blocks for that long and no
// longer than the grace and ten seconds; it returns early when ctx ends. A pid that is another process by now, or whose
// fingerprint says less than everything, is not signalled.
func (f Foreign) End(ctx context.Context, grace time.Duration) Departure {
	leader, verified := f.leader()
	if !verified && f.Tag == "" {
		return Departure{Left: f.lives()}
	}
	tree := f.tree(leader, verified)
	targets := tree()
	if len(targets) == 0 {
		return Departure{Left: f.lives()}
	}
	h := newHunt()
	h.term(targets, grace)
	return f.kill(ctx, h, tree)
}

func (f Foreign) kill(ctx context.Context, h *hunt, tree func() []procfs.Stat) Departure {
	d := Departure{Attempted: true}
	quiet := 0
	for end := time.Now().Add(sweepLimit); quiet < quietLooks; {
		targets := tree()
		switch {
		case len(targets) == 0:
			quiet++
			<-time.After(quietPause)
			continue
		case ctx.Err() != nil, time.Now().After(end):
			d.Left = len(targets)
			return d
		}
		quiet, d.Killed = 0, true
		h.kill(targets)
	}
	return d
}

// leader is the process that the fingerprint means, if it lives and nothing about it is in doubt.
func (f Foreign) leader() (procfs.Stat, bool) {
	host, start, ok := strings.Cut(f.Fingerprint, "|")
	first, err := procfs.ReadStat(1)
	if !ok && !mutation.On("unverified-is-signalled") || f.PID <= 1 || f.PID == os.Getpid() || err != nil || procfs.BootID() == "" {
		return procfs.Stat{}, false
	}
	stat, err := procfs.ReadStat(f.PID)
	ours := host == procfs.BootID()+":"+strconv.FormatUint(first.Start, 10)
	if mutation.On("unverified-is-signalled") {
		return stat, err == nil
	}
	return stat, err == nil && !stat.Dead() && ours && start == strconv.FormatUint(stat.Start, 10)
}

// lives counts, for one that must not be signalled, what is seen of it.
func (f Foreign) lives() int {
	if procfs.LivesAs(f.PID, f.Fingerprint) {
		return 1
	}
	return 0
}

// tree gives a look at all that lives of the worker: the leader, its session and its group where it leads them, whatever
// carries its marks or its tag, and everything below these. This process and its ancestors are never among it.
func (f Foreign) tree(leader procfs.Stat, verified bool) func() []procfs.Stat {
	session := verified && leader.SID == leader.PID
	group := verified && leader.PGID == leader.PID
	return func() []procfs.Stat {
		all, err := procfs.Processes()
		if err != nil {
			return nil
		}
		all = withoutOurselves(all)
		if number := at(all, leader.PID); number.PID != 0 && number.Start != leader.Start {
			session, group = false, false // the number was given out again: its session is another one
		}
		var roots []int
		for _, stat := range all {
			switch {
			case notAProgram(stat), stat.Start < leader.Start:
			case verified && stat.PID == leader.PID && stat.Start == leader.Start,
				session && stat.SID == leader.PID, group && stat.PGID == leader.PID,
				f.carries(stat.PID, verified):
				roots = append(roots, stat.PID)
			}
		}
		return gather(all, roots)
	}
}

func (f Foreign) carries(pid int, verified bool) bool {
	marked := verified && len(f.Marks) > 0
	if f.Tag == "" && !marked {
		return false
	}
	env, err := procfs.Environ(pid)
	if err != nil {
		return false
	}
	if f.Tag != "" && slices.Contains(env, TagKey+"="+f.Tag) {
		return true
	}
	return marked && !slices.ContainsFunc(f.Marks, func(mark string) bool { return !slices.Contains(env, mark) })
}

func at(all []procfs.Stat, pid int) procfs.Stat {
	for _, stat := range all {
		if stat.PID == pid {
			return stat
		}
	}
	return procfs.Stat{}
}

// withoutOurselves takes this process and those above it out: a daemon that a worker started must not end itself.
func withoutOurselves(all []procfs.Stat) []procfs.Stat {
	above := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = at(all, pid).PPID {
		above[pid] = true
	}
	return slices.DeleteFunc(all, func(stat procfs.Stat) bool { return above[stat.PID] })
}
