package logfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func logger(w *Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }

func texts(t *testing.T, home string, f Filter) string {
	t.Helper()
	var all []string
	if _, err := Read(home, f, func(r Record) { all = append(all, r.Message) }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestWhatWasSaidIsReadBack(t *testing.T) {
	home, w := t.TempDir(), &Writer{}
	log := logger(w)
	log.Info("too-early")
	w.Open(home)
	defer w.Close()
	if _, err := Read(home, Filter{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first line: %v", err)
	}
	log.Info("one", "session", "s1", "took", time.Second)
	log.Warn("two", "session", "s2", "task", "t_1")
	log.Error("three", "session", "s1", slog.Group("more", "b", 1, "a", []int{2}))
	for want, f := range map[string]Filter{
		"one two three": {},
		"one three":     {Attrs: map[string]string{"session": "s1"}},
		"two":           {Attrs: map[string]string{"session": "s2", "task": "t_1"}},
		"two three":     {Level: slog.LevelWarn},
		"three":         {Last: 1},
		"":              {Since: time.Now().Add(time.Hour)},
	} {
		if got := texts(t, home, f); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
	info, err := os.Stat(Path(home))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestALineThatIsNoRecordIsCountedAndNotMore(t *testing.T) {
	home, w := t.TempDir(), &Writer{}
	w.Open(home)
	logger(w).Info("one")
	_, _ = w.Write([]byte("panic: torn {\n"))
	_, _ = w.Write([]byte(`{"level":"INFO"}` + "\n"))
	logger(w).Info("two")
	_, _ = w.Write([]byte(`{"time":"2026-01-01T00:00:00Z","msg":"half`))
	_ = w.Close()
	var got []string
	odd, err := Read(home, Filter{}, func(r Record) { got = append(got, r.Message) })
	if err != nil || odd != 2 || strings.Join(got, " ") != "one two" {
		t.Errorf("%v, %d odd, %v", got, odd, err)
	}
}

// Who follows sees each record once, over the turn of the file and over a daemon that begins anew.
func TestAFollowerSeesEachRecordOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := t.TempDir()
		write := func(name, text string) {
			if err := os.MkdirAll(filepath.Join(home, "logs"), 0o700); err != nil {
				t.Fatal(err)
			}
			file, err := os.OpenFile(filepath.Join(home, "logs", name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(file, `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":%q}`+"\n", text); err != nil {
				t.Fatal(err)
			}
			_ = file.Close()
		}
		var got []string
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Follow(ctx, home, Filter{}, func(r Record) { got = append(got, r.Message) }) }()
		pause := func() { time.Sleep(2 * pollEvery); synctest.Wait() }
		pause()
		write("gatewayd.log", "a")
		write("gatewayd.log", "b")
		pause()
		write("gatewayd.log", "c")
		if err := os.Rename(Path(home), filepath.Join(home, "logs", "gatewayd-2026-01-01T00-00-00.000.log")); err != nil {
			t.Fatal(err)
		}
		write("gatewayd-2026-01-01T00-00-00.000.log", "d")
		write("gatewayd.log", "e")
		pause()
		write("gatewayd.log", "f")
		pause()
		stop()
		if err := <-done; err != nil || strings.Join(got, "") != "abcdef" {
			t.Errorf("%v %v", got, err)
		}
	})
}
