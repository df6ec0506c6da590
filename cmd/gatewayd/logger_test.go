package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/creack/pty"

	"gatewayd/config"
)

// Whatever is logged, a reader's terminal gets one line of it and no command.
func TestALogLineHoldsNoControlCharacter(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;title\a forged\n<3>second"
	for _, format := range []string{"text", "journal", "json"} {
		var out bytes.Buffer
		log := newLogger(config.Log{Format: format}, slog.LevelInfo, &out, false)
		log.With("path", evil).WithGroup("a").Warn("file "+evil, "error", evil)
		said := strings.TrimSuffix(out.String(), "\n")
		if !strings.Contains(said, "forged") || strings.ContainsFunc(said, func(r rune) bool { return r < 0x20 }) {
			t.Errorf("%s: %q", format, said)
		}
	}
}

// In a container, and wherever else nobody is known to read, a line is JSON; a person at a terminal gets colours and a pipe none; journald
// gets its priorities, and no colour even where the stream is a terminal.
func TestALogSpeaksAsItsReaderExpects(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("SKIPPED: there is no terminal to be had: %v", err)
	}
	defer master.Close()
	var pipe bytes.Buffer
	to := func(w io.Writer, format string, foreground bool) string {
		t.Helper()
		pipe.Reset()
		newLogger(config.Log{Format: format}, slog.LevelInfo, w, foreground).Warn("odd", "path", "/x")
		if w == &pipe {
			return pipe.String()
		}
		line := make([]byte, 4096)
		n, err := master.Read(line)
		need(t, err)
		return string(line[:n])
	}
	if said := to(&pipe, "auto", false); !json.Valid([]byte(said)) || !strings.Contains(said, `"level":"WARN"`) {
		t.Errorf("for nobody that is known: %q", said)
	}
	if said := to(&pipe, "auto", true); json.Valid([]byte(said)) || strings.Contains(said, "\x1b") || !strings.Contains(said, "WRN odd path=/x") {
		t.Errorf("in the foreground, into a pipe: %q", said)
	}
	if said := to(tty, "auto", true); !strings.Contains(said, "\x1b[") {
		t.Errorf("at a terminal there is no colour: %q", said)
	}
	if said := to(tty, "journal", false); !strings.HasPrefix(said, "<4>") || strings.Contains(said, "\x1b") {
		t.Errorf("for journald: %q", said)
	}
}
