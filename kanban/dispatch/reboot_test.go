package dispatch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/procfs"
	"gatewayd/kanban"
)

// otherHost is the fingerprint of a process as it would be from before a reboot, or from another container of this machine.
func otherHost(t *testing.T, print, what string) string {
	t.Helper()
	boot, rest, ok := strings.Cut(print, ":")
	first, start, ok2 := strings.Cut(rest, "|")
	if !ok || !ok2 {
		t.Fatalf("fingerprint %q", print)
	}
	if what == "reboot" {
		boot = strings.Map(func(r rune) rune {
			if r == '-' {
				return r
			}
			return '0'
		}, boot)
	} else {
		first += "1"
	}
	return boot + ":" + first + "|" + start
}

// A worker that ended because the machine or its container did has not failed. Its pid is somebody else's now, who is left
// alone.
func TestAMachineOrContainerThatStartedAnewIsNoFailureOfItsWorkers(t *testing.T) {
	for _, what := range []string{"reboot", "container"} {
		for _, kept := range []bool{false, true} {
			name := what + ", no record"
			if kept {
				name = what + ", with the keeper's record"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				h.config = playSettings(h.dir)
				b := h.board(kanban.DefaultSlug)
				id := card(t, b, "long")
				play(t, h.dir, "recorded")
				task, err := b.Task(t.Context(), id)
				must(t, err)
				gone(t, h, kept, what)
				bystander := exec.Command("sleep", "600")
				must(t, bystander.Start())
				t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
				print := otherHost(t, procfs.Fingerprint(bystander.Process.Pid), what)
				set(t, b, `UPDATE tasks SET worker_pid = ?, worker_started_at = ?`, bystander.Process.Pid, print)
				set(t, b, `UPDATE task_runs SET worker_pid = ?, worker_started_at = ?`, bystander.Process.Pid, print)

				d := h.dispatcher()
				tickUntil(t, d, "the next run", func() bool { return len(lines(filepath.Join(h.dir, "pids"))) == 2 })
				detail, err := b.Show(t.Context(), id)
				must(t, err)
				if detail.Task.ConsecutiveFailures != 0 || events(t, b, id, kanban.EventCrashed) != 0 || detail.Runs[0].ID == task.CurrentRunID && len(detail.Runs) != 2 {
					t.Errorf("%d failures, %d crashes, runs %+v", detail.Task.ConsecutiveFailures, events(t, b, id, kanban.EventCrashed), detail.Runs)
				}
				if procfs.Fingerprint(bystander.Process.Pid) == procfs.Unverified || !alive(bystander.Process.Pid) {
					t.Error("who has the pid now was signalled")
				}
				legal(t, b)
			})
		}
	}
}

func alive(pid int) bool {
	stat, err := procfs.ReadStat(pid)
	return err == nil && !stat.Dead()
}

// gone ends the worker as the end of its host does: with its keeper, and without a word. What the keeper wrote at the start
// stays, or is gone as well.
func gone(t *testing.T, h *house, kept bool, what string) {
	t.Helper()
	records, err := h.reaper.Records()
	must(t, err)
	r := records[0]
	must(t, syscall.Kill(r.Keeper.PID, syscall.SIGKILL))
	must(t, syscall.Kill(r.Child.PID, syscall.SIGKILL))
	wait(t, "both are gone", func() bool { return !r.Keeper.Alive() && !r.Child.Alive() })
	path := filepath.Join(h.dir, "records", r.ID+".start.json")
	if !kept {
		must(t, os.Remove(path))
		return
	}
	if what == "reboot" {
		raw, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, bytes.ReplaceAll(raw, []byte(r.Keeper.Boot), []byte("00000000-0000-0000-0000-000000000000")), 0o600))
	}
}

// Two dispatchers died one after the other, each between a claim and its worker. Whoever comes third frees both cards at
// once, although only one of the two was the last to hold the lock. A person's claim stays.
func TestAClaimOfADispatcherBeforeTheLastIsFreedToo(t *testing.T) {
	h := newHouse(t)
	h.config.CrashGrace = 0
	b := h.board(kanban.DefaultSlug)
	host, _, _ := cutLock(kanban.ClaimLock())
	claim := func(by kanban.Claimer) string {
		id := card(t, b, "ok")
		by.Lock = host + ":" + strconv.Itoa(deadPID(t))
		_, err := b.Claim(t.Context(), id, by)
		must(t, err)
		return id
	}
	left, byHand := claim(kanban.Claimer{Dispatcher: true}), claim(kanban.Claimer{})
	tickUntil(t, h.dispatcher(), "the card to be run", isStatus(t, b, left, kanban.StatusDone))
	if status(t, b, byHand) != kanban.StatusRunning {
		t.Error("a person's claim was taken away")
	}
}
