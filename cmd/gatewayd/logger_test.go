package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

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
