package reaper_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// worker waits for a file, so that a test decides when it ends.
func worker(id, dir, then string) reaper.Spec {
	spec := shell(id, `echo up; i=0; until [ -e `+dir+`/go-`+id+` ] || [ $i -gt 3000 ]; do sleep 0.02; i=$((i+1)); done; `+then)
	spec.LogPath = dir + "/" + id + ".log"
	return spec
}

func release(t *testing.T, dir, id string) {
	t.Helper()
	if err := os.WriteFile(dir+"/go-"+id, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerOutlivesAKilledDaemonAndItsRecordAppears(t *testing.T) {
	dir, records := t.TempDir(), t.TempDir()
	d, runs := startDaemon(t, daemonTask{records, []reaper.Spec{
		worker("alone", dir, `for i in 1 2 3; do echo line $i; done; exit 143`),
		worker("found", dir, `echo found; kill -KILL $$`),
		worker("stopped", dir, `exit 0`),
	}})
	d.killed()
	for _, run := range runs {
		if !run.Keeper.Alive() || !run.Child.Alive() {
			t.Fatalf("%+v did not outlive the daemon", run)
		}
	}
	release(t, dir, "alone")
	until(t, "the record of the run that nobody watches", func() bool {
		_, err := os.Stat(records + "/alone.json")
		return err == nil
	})
	if log, err := os.ReadFile(dir + "/alone.log"); err != nil || string(log) != "up\nline 1\nline 2\nline 3\n" {
		t.Errorf("log %q, %v", log, err)
	}

	r := newReaper(t, in(records))
	ended := adopt(t, r, "alone")
	select {
	case <-ended.Done():
	default:
		t.Error("a run that has ended is not done at once")
	}
	if got := ended.Record(); got.Code != 143 || got.Signal != 0 || got.Reason != reaper.Exited {
		t.Errorf("record %+v", got)
	}
	found := adopt(t, r, "found")
	if !found.Alive() || found.Child() != runs[1].Child || found.Keeper() != runs[1].Keeper {
		t.Errorf("adopted %+v", found)
	}
	release(t, dir, "found")
	if got := wait(t, found); got.Signal != 9 || got.Reason != reaper.Signaled {
		t.Errorf("record %+v", got)
	}
	stopped := adopt(t, r, "stopped")
	if again := adopt(t, r, "stopped"); again != stopped {
		t.Error("a second Adopt gave another Process")
	}
	stopped.Stop(0)
	if got := wait(t, stopped); got.Reason != reaper.Stopped {
		t.Errorf("record %+v", got)
	}
	if stopped.Alive() {
		t.Error("alive after the end")
	}
}

func adopt(t *testing.T, r *reaper.Reaper, id string) *reaper.Process {
	t.Helper()
	p, err := r.Adopt(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0); wait(t, p) })
	return p
}

func TestACommandEndsWithItsDaemonAndSaysSo(t *testing.T) {
	records := t.TempDir()
	marks := []string{own("90.8401"), own("90.8402")}
	spec := shell(own("command"), strings.ReplaceAll(trees["own session"], "MARK", marks[0]))
	spec.Lifetime, spec.Grace = reaper.EndsWithDaemon, 50*time.Millisecond
	chatty := shell(own("chatty"), "trap '' PIPE; i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); echo "+marks[1]+"; done")
	chatty.Lifetime, chatty.Grace = reaper.EndsWithDaemon, 50*time.Millisecond
	d, _ := startDaemon(t, daemonTask{records, []reaper.Spec{spec, chatty}})
	d.killed()
	r := newReaper(t, in(records))
	for _, id := range []string{spec.ID, chatty.ID} {
		if got := wait(t, adopt(t, r, id)); got.Reason != reaper.DaemonGone {
			t.Errorf("record %+v", got)
		}
	}
	nothingLeft(t, spec.ID, marks[0])
	nothingLeft(t, chatty.ID, marks[1])
}

func TestAKeeperThatIsKilledLeavesNothingAndIsRecordedAsLost(t *testing.T) {
	dir := t.TempDir()
	r := newReaper(t, in(dir))
	running(t, r)
	bystander := start(t, r, shell("bystander", "exec sleep 100"))
	unrelated := exec.Command("sleep", "90.8500")
	if err := unrelated.Start(); err != nil {
		t.Fatal(err)
	}
	defer unrelated.Wait()
	defer unrelated.Process.Kill()
	n := 0
	for name, script := range trees {
		n++
		mark, id := own(fmt.Sprintf("90.85%02d", n)), own(fmt.Sprintf("lost-%d", n))
		t.Run(name, func(t *testing.T) {
			p := plant(t, r, id, script, mark, func(s *reaper.Spec) { s.Grace = 30 * time.Millisecond })
			kill(t, p.Keeper())
			if got := wait(t, p); got.Reason != reaper.KeeperLost || got.Code != -1 || got.Error == "" || got.Child != p.Child() {
				t.Errorf("record %+v", got)
			}
			nothingLeft(t, id, mark)
			onDisk, err := newReaper(t, in(dir)).Adopt(id)
			if err != nil || onDisk.Record().Reason != reaper.KeeperLost {
				t.Errorf("on the disk: %v", err)
			}
		})
	}
	if !bystander.Alive() || !bystander.Child().Alive() {
		t.Error("a run that was not lost was ended too")
	}
	if id, err := procfs.Identify(unrelated.Process.Pid); err != nil || !id.Alive() {
		t.Error("a child that is not a keeper's was ended")
	}
}

func TestOrphansOfAKeeperThatDiedWithItsDaemonEndAtAdoption(t *testing.T) {
	records := t.TempDir()
	mark := own("90.8601")
	spec := shell(own("both"), strings.ReplaceAll(`setsid sh -c "trap '' TERM; sleep MARK; sleep MARK" & sleep MARK & wait`, "MARK", mark))
	spec.Grace = 50 * time.Millisecond
	d, runs := startDaemon(t, daemonTask{records, []reaper.Spec{spec}})
	until(t, "the tree stands", func() bool { return len(marked(mark)) >= 4 })
	d.killed()
	kill(t, runs[0].Keeper)
	until(t, "the leader dies with its keeper", func() bool { return !runs[0].Child.Alive() })
	if len(marked(mark)) == 0 {
		t.Fatal("nothing is left to be swept: the test proves nothing")
	}
	p := adopt(t, newReaper(t, in(records)), spec.ID)
	if got := wait(t, p); got.Reason != reaper.KeeperLost || got.Rounds < 1 {
		t.Errorf("record %+v", got)
	}
	nothingLeft(t, spec.ID, mark)
}

func TestAPidThatIsAnothersNowIsNeverSignalled(t *testing.T) {
	records := t.TempDir()
	innocent := exec.Command("sleep", "90.8701")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer innocent.Wait()
	defer innocent.Process.Kill()
	id, err := procfs.Identify(innocent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	young, otherBoot := id, id
	young.Start--
	otherBoot.Boot = "00000000-0000-0000-0000-000000000000"
	for name, keeper := range map[string]procfs.Identity{own("reused"): young, own("rebooted"): otherBoot} {
		forge(t, records, reaper.Record{ID: name, Keeper: keeper, Child: keeper, Started: time.Now(), Grace: time.Millisecond})
		r := newReaper(t, in(records))
		p := adopt(t, r, name)
		if p.Alive() {
			t.Errorf("%s: taken for the keeper", name)
		}
		p.Stop(0)
		if got := wait(t, p); got.Reason != reaper.KeeperLost {
			t.Errorf("%s: record %+v", name, got)
		}
	}
	if !id.Alive() {
		t.Error("the innocent process was signalled")
	}
}

func forge(t *testing.T, dir string, record reaper.Record) {
	t.Helper()
	data, err := json.Marshal(record)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, record.ID+".start.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordsListsWhatRunsAndWhatEndedAndNamesABrokenFile(t *testing.T) {
	dir := t.TempDir()
	r := newReaper(t, in(dir))
	start(t, r, shell("runs", "sleep 100"))
	wait(t, start(t, r, shell("ended", "exit 4")))
	if err := os.WriteFile(dir+"/broken.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := r.Records()
	if len(records) != 2 || err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Fatalf("records %+v, %v", records, err)
	}
	for _, record := range records {
		if ended := !record.Ended.IsZero(); ended != (record.ID == "ended") {
			t.Errorf("record %+v", record)
		}
	}
	if _, err := r.Adopt("broken"); err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, reaper.ErrNoRecord) {
		t.Errorf("a broken record was adopted: %v", err)
	}
}

func TestAKeeperEndsAtNoSignalThatComesByAccidentAndInOrderAtTERM(t *testing.T) {
	r := newReaper(t)
	id, mark := own("signalled"), own("90.8750")
	p := plant(t, r, id, trees["deaf to TERM"], mark, func(s *reaper.Spec) { s.Grace = 30 * time.Millisecond })
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGQUIT} {
		signal(t, p.Keeper(), sig)
	}
	signal(t, p.Keeper(), syscall.SIGTERM)
	if got := wait(t, p); got.Reason != reaper.Stopped || got.Signal != 9 {
		t.Errorf("record %+v", got)
	}
	nothingLeft(t, id, mark)
}
