package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"gatewayd/config"
	"gatewayd/internal/logfile"
	"gatewayd/internal/mutation"
	"gatewayd/systemd"
)

// newLogger speaks the way the reader expects: colour and short times on a terminal, priorities under journald,
// JSON everywhere else.
func newLogger(cfg config.Log, level slog.Leveler, w io.Writer, foreground bool) *slog.Logger {
	return slog.New(speechFor(cfg, w, foreground)(level, w))
}

// relayed is newLogger for work that must go on when nobody reads the log.
func relayed(cfg config.Log, level slog.Leveler, w io.Writer, foreground bool) (*slog.Logger, *logfile.Relay) {
	speech := speechFor(cfg, w, foreground)
	direct := slog.New(speech(slog.LevelInfo, w))
	relay := logfile.NewRelay(w, func(lost int, during time.Duration) {
		direct.Warn("lines are missing here: the log was not read", "lines", lost, "took", during.Round(time.Millisecond).String())
	})
	if mutation.On("log-holds-up-turns") {
		return direct, relay
	}
	return slog.New(speech(level, relay)), relay
}

// speech makes the handler of one way to speak.
type speech func(slog.Leveler, io.Writer) slog.Handler

// speechFor is how a reader is spoken to.
func speechFor(cfg config.Log, reader io.Writer, foreground bool) speech {
	format := cfg.Format
	if format == "auto" {
		format = autoFormat(reader, foreground)
	}
	plain := !isTerminal(reader)
	return func(level slog.Leveler, w io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: level}
		switch format {
		case "text":
			return visibly{tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: plain})}
		case "journal":
			return visibly{systemd.NewJournalHandler(w, options)}
		}
		return slog.NewJSONHandler(w, options)
	}
}

// visibly keeps control characters of a message from a terminal, as the handlers do with most in the values beside it: a message may
// name a file.
type visibly struct{ slog.Handler }

func (v visibly) Handle(ctx context.Context, r slog.Record) error {
	r.Message = line(r.Message)
	return v.Handler.Handle(ctx, r)
}

func (v visibly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return visibly{v.Handler.WithAttrs(attrs)}
}

func (v visibly) WithGroup(name string) slog.Handler { return visibly{v.Handler.WithGroup(name)} }

// alsoInto adds a copy of all that is said, in lines of JSON.
func alsoInto(log *slog.Logger, copied io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewMultiHandler(log.Handler(), slog.NewJSONHandler(copied, &slog.HandlerOptions{Level: level})))
}

// levelOf is how much is logged; it may be changed while a logger uses it.
func levelOf(cfg config.Log) *slog.LevelVar {
	var v slog.LevelVar
	setLevel(&v, cfg.Level)
	return &v
}

func setLevel(v *slog.LevelVar, word string) {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(word)) // config has checked the word
	v.Set(level)
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
