package reaper_test

import (
	"io"
	"testing"

	"gatewayd/reaper"
)

func TestAPipedChildIsSpokenWith(t *testing.T) {
	r := newReaper(t)
	defer running(t, r)()
	p, pipes, err := r.StartPiped(t.Context(), reaper.Spec{ID: "piped", Argv: []string{"/bin/sh", "-c", `read line; echo "got $line"; echo oops >&2; cat`}})
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	if _, err := io.WriteString(pipes.In, "hello\nmore\n"); err != nil {
		t.Fatal(err)
	}
	if err := pipes.In.Close(); err != nil {
		t.Fatal(err)
	}
	out, err1 := io.ReadAll(pipes.Out)
	errs, err2 := io.ReadAll(pipes.Err)
	if err1 != nil || err2 != nil || string(out) != "got hello\nmore\n" || string(errs) != "oops\n" {
		t.Errorf("out %q %v, err %q %v", out, err1, errs, err2)
	}
	if record := p.Record(); record.Reason != reaper.Exited || record.Code != 0 {
		t.Errorf("%+v", record)
	}
}

func TestAPipedChildEndsWithItsWholeTree(t *testing.T) {
	r := newReaper(t)
	defer running(t, r)()
	p, pipes, err := r.StartPiped(t.Context(), reaper.Spec{ID: "tree", Argv: []string{"/bin/sh", "-c", `(setsid sleep 600 &) ; echo ready; exec sleep 600`}})
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	if _, err := io.ReadFull(pipes.Out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	p.Stop(1)
	record := p.Record()
	if rest, err := io.ReadAll(pipes.Out); err != nil || len(rest) > 0 {
		t.Errorf("somebody still holds its output: %q %v", rest, err)
	}
	if record.Reason != reaper.Stopped {
		t.Errorf("%+v", record)
	}
}

func TestAPipedChildThatCannotStartLeavesNothing(t *testing.T) {
	r := newReaper(t)
	defer running(t, r)()
	if _, _, err := r.StartPiped(t.Context(), reaper.Spec{ID: "none", Argv: []string{"/no/such/program"}}); err == nil {
		t.Fatal("no error")
	}
	if _, _, err := r.StartPiped(t.Context(), reaper.Spec{ID: "none", Argv: []string{"/etc/passwd"}}); err == nil {
		t.Fatal("no error")
	}
	if records, err := r.Records(); err != nil || len(records) > 0 {
		t.Errorf("%+v %v", records, err)
	}
}
