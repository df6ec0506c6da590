package reaper

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

func TestAKeeperAsPidOneIsExactAndLeavesNothing(t *testing.T) {
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("SKIPPED: no pid namespace can be made here (unshare: %v), so nothing is proven about pid 1", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"exit 9", "setsid sleep 90.9001 & exit 9", `trap '' TERM; setsid sh -c "trap '' TERM; sleep 90.9001 & sleep 90.9001" & exit 9`,
	} {
		control, theirs, err := controlPair()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "-pf", "--mount-proc", exe, keeperVerb)
		cmd.ExtraFiles = []*os.File{theirs}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		c, err := newCommand(Spec{
			ID: "first", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
			Lifetime: EndsWithDaemon, Grace: 20 * time.Millisecond,
		}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []order{{Command: &c}, {Go: true}} {
			if err := json.NewEncoder(control).Encode(o); err != nil {
				t.Fatal(err)
			}
		}
		decoder, last := json.NewDecoder(control), answer{}
		for last.Ended == nil {
			if err := decoder.Decode(&last); err != nil {
				t.Fatal(err)
			}
		}
		if last.Started == nil || last.Started.Keeper.PID != 1 {
			t.Errorf("%s: the keeper was not pid 1: %+v", script, last.Started)
		}
		if last.Ended.Code != 9 || last.Ended.Signal != 0 || last.Ended.Reason != Exited {
			t.Errorf("%s: record %+v", script, last.Ended)
		}
		control.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestASignalGoesOnlyToTheProcessThatWasSeen(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	seen, err := procfs.ReadStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	older := seen
	older.Start--
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if fds := signalAll([]procfs.Stat{older}, sig); len(fds) != 0 {
			t.Errorf("%v was sent to another process", sig)
		}
	}
	if _, err := openIdentity(procfs.Identity{Boot: procfs.BootID(), PID: seen.PID, Start: older.Start}); err == nil {
		t.Error("another process was taken for the one that was meant")
	}
	if now, err := procfs.ReadStat(seen.PID); err != nil || now.Dead() {
		t.Error("the process is dead")
	}
	fds := signalAll([]procfs.Stat{seen}, syscall.SIGKILL)
	if len(fds) != 1 || waitAll(fds, time.Minute) != 0 {
		t.Error("the process that was meant was not signalled")
	}
	for _, fd := range fds {
		closeFD(fd)
	}
}

func TestPidOneTakesADeadChildOfItsOwnSessionOnlyAfterAWhile(t *testing.T) {
	r := &Reaper{aging: map[int]time.Time{7: time.Now().Add(-2 * zombieAge)}}
	dead, first := procfs.Stat{PID: 7}, procfs.Stat{PID: 1}
	if r.aged(dead, procfs.Stat{PID: 2}, map[int]time.Time{}) {
		t.Error("a daemon that is not pid 1 takes it")
	}
	if aging := map[int]time.Time{}; !r.aged(dead, first, aging) {
		t.Error("an old one is not taken")
	}
	if aging := map[int]time.Time{}; r.aged(procfs.Stat{PID: 8}, first, aging) || aging[8].IsZero() {
		t.Error("a new one is taken, or not remembered")
	}
}

func TestAKeeperThatCannotWriteItsRecordTellsIt(t *testing.T) {
	r, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	told := Record{ID: "told", Code: 3, Reason: Exited}
	got := r.settle(r.store, Record{ID: "told"}, func() (Record, bool) { return told, true })
	if got != told {
		t.Errorf("settled %+v", got)
	}
	if onDisk, err := r.store.end("told"); err != nil || onDisk.Code != 3 {
		t.Errorf("on the disk: %+v, %v", onDisk, err)
	}
}

func TestARecordIsWholeOrNotThere(t *testing.T) {
	s := store{dir: t.TempDir()}
	if err := os.Mkdir(s.dir+"/bad.json", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.writeEnd(Record{ID: "bad"}, true); err == nil {
		t.Error("no error")
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("a temporary file is left: %v, %v", entries, err)
	}
	missing := store{dir: s.dir + "/none"}
	if err := missing.writeEnd(Record{ID: "x"}, true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestTheFirstRecordIsThereWholeWithAndWithoutABlankFile(t *testing.T) {
	gone := t.TempDir()
	for name, blank := range map[string]func(dir string) *os.File{
		"blank":              blankFile,
		"none":               func(string) *os.File { return nil },
		"of another, closed": func(string) *os.File { f := blankFile(gone); f.Close(); return f },
		"name taken": func(dir string) *os.File {
			if err := os.WriteFile(filepath.Join(dir, "x"+startSuffix), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			return blankFile(dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := store{dir: t.TempDir()}
			want := Record{ID: "x", Code: -1, Grace: time.Second}
			if err := s.writeFirst(want, blank(s.dir)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.start("x"); err != nil || got != want {
				t.Errorf("%+v, %v", got, err)
			}
			if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
				t.Errorf("left in the directory: %v, %v", entries, err)
			}
		})
	}
}
