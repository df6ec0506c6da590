package systemd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// IsJournal reports whether what is written to w goes to the journal, which stamps lines itself and understands a
// priority before each. It knows the standard output and error of a unit.
func IsJournal(w io.Writer) bool {
	var connected bool
	switch w {
	case os.Stderr:
		connected, _ = journal.StderrIsJournalStream()
	case os.Stdout:
		connected, _ = journal.StdoutIsJournalStream()
	}
	return connected
}

// NewJournalHandler writes "<6>message key=value" lines: the priority for the journal, no time, no colour.
func NewJournalHandler(w io.Writer, options *slog.HandlerOptions) slog.Handler {
	if options == nil {
		options = &slog.HandlerOptions{}
	}
	line := &bytes.Buffer{}
	fields := slog.NewTextHandler(line, &slog.HandlerOptions{
		Level: options.Level, AddSource: options.AddSource, ReplaceAttr: withoutHead(options.ReplaceAttr),
	})
	return &journalHandler{mu: &sync.Mutex{}, out: w, line: line, fields: fields}
}

type replacer func(groups []string, a slog.Attr) slog.Attr

// withoutHead drops what journalHandler writes by itself or the journal knows.
func withoutHead(next replacer) replacer {
	return func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		if next != nil {
			return next(groups, a)
		}
		return a
	}
}

// journalHandler lets the standard text handler write the fields into line, which all its children share.
type journalHandler struct {
	mu     *sync.Mutex
	out    io.Writer
	line   *bytes.Buffer
	fields slog.Handler
}

func (h *journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.fields.Enabled(ctx, level)
}

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	fmt.Fprintf(h.line, "<%d>%s ", priority(r.Level), strings.Join(strings.Fields(r.Message), " "))
	if err := h.fields.Handle(ctx, r); err != nil {
		return fmt.Errorf("write log line: %w", err)
	}
	_, err := h.out.Write(h.line.Bytes())
	return err
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.mu, h.out, h.line, h.fields.WithAttrs(attrs)}
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.mu, h.out, h.line, h.fields.WithGroup(name)}
}

// priority is syslog's number for a level.
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	}
	return 7
}
