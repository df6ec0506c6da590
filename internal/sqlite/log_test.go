package sqlite

import (
	"log/slog"
	"strings"
	"sync"
)

// lockedBuilder collects a log that several goroutines write.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func textLog(l *lockedBuilder) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
