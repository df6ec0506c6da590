package systemd

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestJournalLinesHaveAPriorityAndNoTime(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewJournalHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log.Debug("claimed", "board", "default", "task", "t_1")
	log.Info("ready")
	log.With("board", "b").WithGroup("run").Warn("late", "id", 7)
	log.Error("two\nlines", "error", "a\nb", "level", "mine", "nested", slog.GroupValue(slog.String("msg", "kept")))
	want := strings.Join([]string{
		`<7>claimed board=default task=t_1`,
		`<6>ready `,
		`<4>late board=b run.id=7`,
		`<3>two lines error="a\nb" nested.msg=kept`,
		"",
	}, "\n")
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestJournalLinesAreWholeAndOfTheirLevel(t *testing.T) {
	var out writes
	handler := NewJournalHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		runtime.Gosched() // in the middle of a line
		return a
	}})
	if handler.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("debug is on by default")
	}
	log := slog.New(handler)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { log.With("worker", i).Info("line", "text", strings.Repeat("x", 100)) })
	}
	all.Wait()
	if len(out.parts) != 50 {
		t.Errorf("%d writes for 50 lines", len(out.parts))
	}
	for _, part := range out.parts {
		if !strings.HasPrefix(part, "<6>line ") || strings.Count(part, "\n") != 1 {
			t.Errorf("%q", part)
		}
	}
}

type writes struct {
	mu    sync.Mutex
	parts []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts = append(w.parts, string(p))
	return len(p), nil
}

func TestOnlyTheUnitsOwnOutputIsTheJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "1:1")
	if IsJournal(os.Stderr) || IsJournal(os.Stdout) || IsJournal(&bytes.Buffer{}) {
		t.Error("another stream is taken for the journal")
	}
	t.Setenv("JOURNAL_STREAM", "garbage")
	if IsJournal(os.Stderr) {
		t.Error("garbage is taken for the journal")
	}
}
