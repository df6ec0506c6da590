package reaper

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A command may lie in a keeper's socket until long after its daemon was killed and the next one has looked for records:
// whatever the keeper started then would run beside what that one starts.
func TestAKeeperWhoseDaemonDiesBeforeItsWordStartsNothing(t *testing.T) {
	exe, err := os.Executable()
	ok(t, err)
	for _, lifetime := range []Lifetime{EndsWithDaemon, Outlives} {
		dir := t.TempDir()
		mark := filepath.Join(dir, "started")
		control, theirs, err := controlPair()
		ok(t, err)
		cmd := &exec.Cmd{Path: exe, Args: []string{"gatewayd", keeperVerb}, ExtraFiles: []*os.File{theirs}}
		ok(t, cmd.Start())
		ok(t, theirs.Close())
		c, err := newCommand(Spec{ID: "first", Argv: []string{"/bin/sh", "-c", `: > "$0"`, mark}, Lifetime: lifetime}, dir)
		ok(t, err)
		ok(t, json.NewEncoder(control).Encode(order{Command: &c}))
		var said answer
		ok(t, json.NewDecoder(control).Decode(&said))
		if _, err := (store{dir: dir}).latest("first"); err != nil || !said.OnRecord {
			t.Errorf("before the word: %+v, record %v", said, err)
		}
		ok(t, control.Close())
		ok(t, cmd.Wait())
		record, err := store{dir: dir}.end("first")
		if _, started := os.Stat(mark); err != nil || record.Reason != DaemonGone || record.Child.Known() || !os.IsNotExist(started) {
			t.Errorf("lifetime %v: record %+v (%v), program %v", lifetime, record, err, started)
		}
	}
}

// A daemon may look for a run in the moment between its record and its program.
func TestARunThatIsAdoptedInTheMomentOfItsStartGetsItsChild(t *testing.T) {
	r, err := New(Options{Dir: t.TempDir(), Spares: -1})
	ok(t, err)
	keeper, child := exec.Command("sleep", "600"), exec.Command("sleep", "600")
	for _, c := range []*exec.Cmd{keeper, child} {
		ok(t, c.Start())
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	begun := Record{ID: "young", Started: time.Now(), Code: -1}
	begun.Keeper, err = procfs.Identify(keeper.Process.Pid)
	ok(t, err)
	ok(t, r.store.writeStart(begun))
	p, err := r.Adopt("young")
	ok(t, err)
	if p.Child().Known() {
		t.Errorf("a child that nobody has started: %+v", p.Child())
	}
	begun.Child, err = procfs.Identify(child.Process.Pid)
	ok(t, err)
	ok(t, r.store.writeStart(begun))
	if p.Child() != begun.Child {
		t.Errorf("child %+v, want %+v", p.Child(), begun.Child)
	}
	ok(t, keeper.Process.Kill())
	_ = keeper.Wait()
	if record := p.Record(); record.Reason != KeeperLost || record.Child != begun.Child {
		t.Errorf("%+v", record)
	}
}
