package dispatch

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/peer"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// pyDispatcher takes and leaves locks as a dispatcher in Python does, at the word of the test.
const pyDispatcher = `
import fcntl, os, sys
held = {}
for line in sys.stdin:
    what, path = line.rstrip("\n").split(" ", 1)
    if what == "take":
        f = open(path, "a+")
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held[path] = f
            print("taken", flush=True)
        except BlockingIOError:
            f.close()
            print("contended", flush=True)
    else:
        held.pop(path).close()
        print("left", flush=True)
`

type python struct {
	t *testing.T
	*peer.Process
}

func newPython(t *testing.T) *python {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: a dispatcher in Python beside ours is NOT tested")
	}
	return &python{t, peer.Start(t, exec.Command(path, "-c", pyDispatcher))}
}

func (p *python) says(order, path, want string) {
	p.t.Helper()
	p.Say(order + " " + path)
	if said, _ := p.Line(); said != want {
		p.t.Errorf("python: %s %s: %q, want %q", order, path, said, want)
	}
}

func TestADispatcherInPythonAndOursLeadOneAtATime(t *testing.T) {
	h := newHouse(t)
	h.config.Interval = 50 * time.Millisecond
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	py := newPython(t)
	lock := h.root.SingletonLockPath()
	first, err := h.root.TrySingletonLock() // makes the directory
	must(t, err)
	py.says("take", lock, "contended")
	must(t, first.Close())
	py.says("take", lock, "taken")
	d := h.dispatcher()
	go func() { _ = d.Run(t.Context()) }()
	wait(t, "ours to follow", func() bool { return d.Status().Outside != nil })
	if st := d.Status(); st.Outside.Reason != NotLeader || st.Ticks != 0 || status(t, b, id) != kanban.StatusReady {
		t.Errorf("beside a leader in Python: %+v", st)
	}
	py.says("leave", lock, "left")
	wait(t, "the card", isStatus(t, b, id, kanban.StatusDone))
	py.says("take", lock, "contended")
}

func TestATickInPythonAndOursExcludeEachOther(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	py := newPython(t)
	lock := kanban.DispatchLockPath(b.Path())
	py.says("take", lock, "taken")
	d := h.dispatcher()
	before := count(t, b, `SELECT count(*) FROM task_events`)
	r, err := d.Tick(t.Context())
	must(t, err)
	if !slices.Contains(r.Locked, kanban.DefaultSlug) || len(r.Spawned) != 0 || count(t, b, `SELECT count(*) FROM task_events`) != before {
		t.Errorf("during a tick in Python: %+v", r)
	}
	py.says("leave", lock, "left")

	// Ours is held up in the middle of a tick by another writer.
	holding, let := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(let) })
	defer letGo()
	go func() {
		_ = b.File().Write(t.Context(), sqlite.Op{Label: "hold", Do: func(*sqlite.Tx) error { close(holding); <-let; return errors.New("no change") }})
	}()
	<-holding
	ticked := make(chan error, 1)
	go func() { _, err := d.Tick(t.Context()); ticked <- err }()
	wait(t, "ours to be in its tick", func() bool { // whoever takes the lock to find out keeps ours from it
		holder, signed := kanban.LockHolder(lock)
		return signed && holder.PID == os.Getpid()
	})
	py.says("take", lock, "contended")
	letGo()
	must(t, <-ticked)
	py.says("take", lock, "taken")
	py.says("leave", lock, "left")
	tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusDone))
	if n := strings.Count(h.log.text(), "level=ERROR"); n != 0 {
		t.Errorf("%d errors:\n%s", n, h.log.text())
	}
}
