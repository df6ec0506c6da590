package dispatch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
)

// spoil closes whatever holds the board and puts other bytes in its place.
func spoil(t *testing.T, h *house, slug kanban.Slug, content []byte) []byte {
	t.Helper()
	path := h.root.DBPath(slug)
	for _, side := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + side)
	}
	must(t, os.WriteFile(path, content, 0o600))
	return content
}

func TestADamagedBoardIsToldOnceLeftAloneAndTakenUpWhenRepaired(t *testing.T) {
	h := newHouse(t)
	bad := h.board("bad")
	waiting := card(t, bad, "ok")
	must(t, bad.Close())
	path := h.root.DBPath("bad")
	good := readAll(t, path, path+"-wal")
	good2 := h.board("good")
	junk := spoil(t, h, "bad", bytes.Repeat([]byte("this is no database "), 500))

	id := card(t, good2, "ok")
	d := h.dispatcher()
	r := tickUntil(t, d, "the good board's card", isStatus(t, good2, id, kanban.StatusDone))
	opens := h.opens()
	for range 5 {
		more, err := d.Tick(t.Context())
		must(t, err)
		r = add(r, more)
	}
	if n := h.log.count("level=ERROR"); n != 1 {
		t.Errorf("%d ERROR lines, want one:\n%s", n, h.log.text())
	}
	if h.opens() != opens {
		t.Errorf("the damaged file was opened %d more times while it was unchanged", h.opens()-opens)
	}
	now, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(now, junk) {
		t.Error("the damaged file was written to")
	}
	for _, side := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + side); err == nil {
			t.Errorf("%s was left beside it", side)
		}
	}
	st := boardStatus(t, d, "bad")
	if st.State != "disabled" || st.Hold == nil || st.Hold.Since == nil || st.Hold.Until == nil || st.Hold.Remedy == "" {
		t.Errorf("status: %+v", st)
	}
	why, err := d.Why(t.Context(), "bad", waiting)
	must(t, err)
	if why.Holds[0].Reason != BoardDisabled {
		t.Errorf("why: %+v", why)
	}
	shut := d.Disabled("bad")
	if !problem.Is(shut, problem.Damaged) || !strings.Contains(shut.Error(), st.Hold.Detail) || !strings.Contains(shut.Error(), st.Hold.Remedy) {
		t.Errorf("to others of this process: %v, want the words of %+v", shut, st.Hold)
	}
	if err := d.Disabled("good"); err != nil {
		t.Errorf("the good board: %v", err)
	}

	d.mu.Lock()
	d.boards["bad"].bad.retryAt = time.Now()
	d.mu.Unlock()
	_, err = d.Tick(t.Context())
	must(t, err)
	if n := h.log.count("level=ERROR"); n != 1 || h.opens() != opens+1 {
		t.Errorf("after the timer: %d ERROR lines, %d opens", n, h.opens()-opens)
	}

	spoil(t, h, "bad", good[0])
	if len(good[1]) > 0 {
		must(t, os.WriteFile(path+"-wal", good[1], 0o600))
	}
	repaired, err := kanban.Open(context.Background(), kanban.Options{Path: path, Slug: "bad"})
	must(t, err)
	defer repaired.Close()
	if err := d.Disabled("bad"); err != nil {
		t.Errorf("the file changed, and yet: %v", err)
	}
	tickUntil(t, d, "the repaired board's card", isStatus(t, repaired, waiting, kanban.StatusDone))
	if st := boardStatus(t, d, "bad"); st.State != "ok" {
		t.Errorf("status after the repair: %+v", st)
	}
}

func TestADisabledBoardSaysWhatItReallyIsAndOnceWhatToDo(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"directory":    func(path string) error { return os.Mkdir(path, 0o700) },
		"regular file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"empty": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.WriteFile(path+"-wal", []byte("x"), 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			must(t, make(h.root.DBPath(kanban.DefaultSlug)))
			d := h.dispatcher()
			_, err := d.Tick(t.Context())
			must(t, err)
			hold := boardStatus(t, d, kanban.DefaultSlug).Hold
			if hold == nil || hold.Reason != BoardDisabled || !strings.Contains(hold.Detail, what) || hold.Remedy == "" || strings.Contains(hold.Detail, hold.Remedy) {
				t.Fatalf("%+v\n%s", hold, h.log.text())
			}
			_, line, _ := strings.Cut(h.log.text(), "level=ERROR")
			line, _, _ = strings.Cut(line, "\n")
			if !strings.Contains(line, what) || strings.Contains(line, "SQLite database") || strings.Count(line, hold.Remedy) != 1 {
				t.Errorf("the log says %s", line)
			}
		})
	}
}

func readAll(t *testing.T, paths ...string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

func boardStatus(t *testing.T, d *Dispatcher, slug kanban.Slug) BoardStatus {
	t.Helper()
	for _, b := range d.Status().Boards {
		if b.Slug == slug {
			return b
		}
	}
	t.Fatalf("no board %s in %+v", slug, d.Status().Boards)
	return BoardStatus{}
}

func TestWorkersAreReapedWhileEveryBoardIsDamaged(t *testing.T) {
	before := zombies(t) // of other tests, whose reapers have ended
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "sleep")
	d := h.dispatcher()
	r := tickUntil(t, d, "the worker to run", isStatus(t, b, id, kanban.StatusRunning))
	w := onlyWorker(t, d)
	keeper := w.proc
	must(t, b.Close())
	d.mu.Lock()
	d.boards[kanban.DefaultSlug].close()
	d.mu.Unlock()
	spoil(t, h, kanban.DefaultSlug, []byte("not a database, certainly not"))
	_ = keeper
	w.proc.Stop(0)
	<-w.proc.Done()
	reaped := 0
	for range 2 {
		more, err := d.Tick(t.Context())
		must(t, err)
		reaped += len(more.Reaped)
	}
	if reaped != 1 {
		t.Errorf("reaped %d of 1 workers: %+v", reaped, r)
	}
	for pid := range zombies(t) {
		if !before[pid] {
			t.Errorf("pid %d is a zombie", pid)
		}
	}
	if _, err := h.local.Adopt(w.id); err != nil {
		t.Errorf("the record was forgotten before its board heard of it: %v", err)
	}
}

// zombies are the children of this process that have ended and were not waited for.
func zombies(t *testing.T) map[int]bool {
	t.Helper()
	children, err := procfs.Children(os.Getpid())
	must(t, err)
	dead := map[int]bool{}
	for _, pid := range children {
		if st, err := procfs.ReadStat(pid); err == nil && st.Dead() {
			dead[pid] = true
		}
	}
	return dead
}

func onlyWorker(t *testing.T, d *Dispatcher) *attached {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.workers) != 1 {
		t.Fatalf("%d workers", len(d.workers))
	}
	for _, w := range d.workers {
		return w
	}
	return nil
}

func TestABoardThatIsDamagedUnderTheHandleIsDisabled(t *testing.T) {
	h := newHouse(t)
	b := h.board("b")
	for range 60 {
		card(t, b, "nobody-at-all", func(n *kanban.NewTask) { n.Body = string(bytes.Repeat([]byte("x"), 2000)) })
	}
	d := h.dispatcher()
	if _, err := d.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, b.Close())
	d.mu.Lock()
	d.boards["b"].close()
	d.mu.Unlock()
	path := h.root.DBPath("b")
	data := readAll(t, path)[0]
	for i := 2 * 4096; i < len(data); i++ {
		data[i] = 0xff // every page but the header's is gone
	}
	spoil(t, h, "b", data)
	for range 2 {
		if _, err := d.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if st := boardStatus(t, d, "b"); st.State != "disabled" {
		t.Errorf("%+v\n%s", st, h.log.text())
	}
	if n := h.log.count("level=ERROR"); n != 1 {
		t.Errorf("%d ERROR lines:\n%s", n, h.log.text())
	}
}
