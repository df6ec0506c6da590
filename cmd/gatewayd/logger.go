package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"gatewayd/config"
	"gatewayd/systemd"
)

// newLogger speaks the way the reader expects: colour and short times on a terminal, priorities under journald,
// JSON everywhere else.
func newLogger(cfg config.Log, w io.Writer, foreground bool) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(cfg.Level)) // config has checked the word
	format := cfg.Format
	if format == "auto" {
		format = autoFormat(w, foreground)
	}
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)}))
	case "journal":
		return slog.New(systemd.NewJournalHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func autoFormat(w io.Writer, foreground bool) string {
	switch {
	case foreground:
		return "text"
	case systemd.IsJournal(w):
		return "journal"
	}
	return "json"
}
