package reaper_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gatewayd/reaper"
)

func TestALogIsCappedWhileItIsWritten(t *testing.T) {
	r := newReaper(t)
	dir := t.TempDir()
	spec := shell("log", `echo first; i=0; while [ $i -lt 4000 ]; do echo "line $i ......................................"; i=$((i+1)); done; echo last >&2; i=0; until [ -e `+dir+`/go ] || [ $i -gt 3000 ]; do sleep 0.02; i=$((i+1)); done`)
	spec.LogPath, spec.LogMax = dir+"/deep/task.log", 64<<10
	p := start(t, r, spec)
	until(t, "the last line is in the log of the running child", func() bool {
		data, _ := os.ReadFile(spec.LogPath)
		return strings.HasSuffix(string(data), "last\n")
	})
	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if now, old := size(spec.LogPath), size(spec.LogPath+".1"); now > spec.LogMax || old > spec.LogMax || old == 0 {
		t.Errorf("sizes %d and %d, limit %d", now, old, spec.LogMax)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	names, _ := os.ReadDir(dir + "/deep")
	if len(names) != 2 {
		t.Errorf("generations %v", names)
	}
	both := append(read(t, spec.LogPath+".1"), read(t, spec.LogPath)...)
	for i := 3000; i < 4000; i++ {
		if !bytes.Contains(both, fmt.Appendf(nil, "line %d .", i)) {
			t.Fatalf("line %d is lost", i)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestALogIsAppendedToByTheNextRun(t *testing.T) {
	r := newReaper(t)
	log := t.TempDir() + "/task.log"
	for i := range 3 {
		spec := shell(fmt.Sprintf("run-%d", i), fmt.Sprintf("echo out %d; echo err %d >&2", i, i))
		spec.LogPath = log
		wait(t, start(t, r, spec))
	}
	if got := string(read(t, log)); got != "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n" {
		t.Errorf("log %q", got)
	}
}

func TestALogThatCannotBeWrittenCostsItsLinesAndNotTheChild(t *testing.T) {
	r := newReaper(t)
	spec := shell("full", "head -c 1000000 /dev/zero; exit 6")
	spec.LogPath = t.TempDir() + "/log"
	if err := os.Mkdir(spec.LogPath+".1", 0o700); err != nil { // a generation that cannot be replaced
		t.Fatal(err)
	}
	spec.LogMax = 4096
	if got := wait(t, start(t, r, spec)); got.Code != 6 || !strings.Contains(got.Error, "rotate log") {
		t.Errorf("record %+v", got)
	}
}

func TestOutputComesAsItIsWritten(t *testing.T) {
	r := newReaper(t)
	dir := t.TempDir()
	out := make(chan string, 100)
	spec := worker("streamed", dir, "echo two >&2")
	spec.Lifetime, spec.LogPath = reaper.EndsWithDaemon, ""
	spec.Output = writerFunc(func(p []byte) (int, error) { out <- string(p); return len(p), nil })
	p := start(t, r, spec)
	if got := <-out; got != "up\n" {
		t.Errorf("first %q", got)
	}
	release(t, dir, "streamed")
	if got := <-out; got != "two\n" {
		t.Errorf("then %q", got)
	}
	wait(t, p)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAllOutputIsThereWhenDoneIsClosed(t *testing.T) {
	r := newReaper(t)
	total, ended := 0, make(chan struct{})
	spec := shell("all", "head -c 60000 /dev/zero") // fits into the pipe: the child can end before it is read
	spec.Lifetime = reaper.EndsWithDaemon
	spec.Output = writerFunc(func(p []byte) (int, error) { <-ended; total += len(p); return len(p), nil })
	p := start(t, r, spec)
	until(t, "the keeper has ended", func() bool { return !p.Keeper().Alive() })
	close(ended)
	wait(t, p)
	if total != 60000 {
		t.Errorf("%d of 60000 bytes", total)
	}
}

func TestAStalledReaderHoldsTheChildAndNeverTheEnd(t *testing.T) {
	r := newReaper(t)
	block := make(chan struct{})
	calls := make(chan struct{}, 1000)
	spec := shell(own("stalled"), "yes "+own("90.8801"))
	spec.Lifetime = reaper.EndsWithDaemon
	spec.Output = writerFunc(func(p []byte) (int, error) {
		calls <- struct{}{}
		<-block
		return len(p), nil
	})
	p := start(t, r, spec)
	<-calls
	p.Stop(0)
	if got := wait(t, p); got.Reason != reaper.Stopped {
		t.Errorf("record %+v", got)
	}
	close(block)
	nothingLeft(t, spec.ID, own("90.8801"))
	if len(calls) != 0 {
		t.Error("the writer was called after the end")
	}
}

func TestAFailingReaderDoesNotStopTheChild(t *testing.T) {
	r := newReaper(t)
	spec := shell("deaf", "head -c 1000000 /dev/zero; exit 8")
	spec.Lifetime = reaper.EndsWithDaemon
	spec.Output = writerFunc(func([]byte) (int, error) { return 0, errors.New("broken") })
	if got := wait(t, start(t, r, spec)); got.Code != 8 {
		t.Errorf("record %+v", got)
	}
}

func TestOutputRunsAShortCommand(t *testing.T) {
	r := newReaper(t)
	out, record, err := r.Output(t.Context(), shell("", "echo one; echo two >&2; exit 3"))
	if string(out) != "one\ntwo\n" || record.Code != 3 || err != nil {
		t.Errorf("%q, %+v, %v", out, record, err)
	}
	if out, _, err := r.Output(t.Context(), shell("", "head -c 2000000 /dev/zero")); !errors.Is(err, reaper.ErrOutputLimit) || len(out) != 1<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, record, err := r.Output(t.Context(), func() reaper.Spec {
		s := shell("", "sleep 90.8802")
		s.Deadline = 20 * time.Millisecond
		return s
	}()); err != nil || record.Reason != reaper.Deadline {
		t.Errorf("%+v, %v", record, err)
	}
	if records, err := r.Records(); len(records) != 0 || err != nil {
		t.Errorf("records are kept: %v, %v", records, err)
	}
}
