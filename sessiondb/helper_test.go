package sessiondb

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gatewayd/internal/sqlite"
)

// logged collects what a store logs, for tests that promise one line about a trouble.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), part)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// testStore is a new store that is closed with the test.
func testStore(t testing.TB) (*Store, *logged) {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "state.db"))
}

func openStore(t testing.TB, path string) (*Store, *logged) {
	t.Helper()
	return openWith(t, Options{Path: path, Journal: journalOf(path)})
}

// journalOf leaves a file in the journal mode that it has: byte 18 of its header is 1 in rollback mode. Left to itself, an open takes it
// to WAL.
func journalOf(path string) (config sqlite.JournalConfig) {
	if header, err := os.ReadFile(path); err == nil && len(header) > 18 && header[18] == 1 {
		config.Mode = "delete"
	}
	return config
}

func openWith(t testing.TB, o Options) (*Store, *logged) {
	t.Helper()
	log := &logged{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s, log
}

func self(t testing.TB) Holder {
	t.Helper()
	h, err := SelfHolder("test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// conversation is a new session with its turn lease.
func conversation(t testing.TB, s *Store) Lease {
	t.Helper()
	made, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.AcquireTurn(t.Context(), made.ID, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func say(t testing.TB, s *Store, l Lease, texts ...string) []Message {
	t.Helper()
	rows := make([]NewMessage, len(texts))
	for i, text := range texts {
		rows[i] = NewMessage{Role: "user", Content: text}
	}
	out, err := s.Append(t.Context(), l, rows)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return out
}

// write changes the file past the store's rules, as a foreign program or a bug would.
func write(t testing.TB, s *Store, sql string, args ...any) {
	t.Helper()
	err := s.file.Write(t.Context(), sqlite.Op{Label: "test", Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	}})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func number(t testing.TB, s *Store, sql string, args ...any) (n int64) {
	t.Helper()
	err := s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		_, err := c.Row(sql, args, &n)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func contents(rows []Message) []string {
	out := make([]string, len(rows))
	for i, m := range rows {
		out[i] = m.Content
	}
	return out
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// checkIndexes asserts what an index promises: SQLite finds it sound against the rows below its mark, and it holds each
// of them once.
func checkIndexes(t testing.TB, s *Store) {
	t.Helper()
	for _, ix := range indexes {
		if number(t, s, `SELECT count(*) FROM meta WHERE k = ?`, ix.stale) > 0 {
			continue // out of use: what is in it promises nothing
		}
		write(t, s, fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rank) VALUES('integrity-check', 1)`, ix.table))
		docs := number(t, s, `SELECT count(*) FROM `+ix.table+`_docsize`)
		rows := number(t, s, `SELECT count(*) FROM `+ix.view)
		equal(t, "documents of "+ix.table, docs, rows)
	}
}
