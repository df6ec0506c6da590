package sessiondb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// damages are ways in which a file becomes unusable under an open store.
var damages = map[string]func(t *testing.T, s *Store){
	"lost wal": func(t *testing.T, s *Store) { must(t, os.Remove(s.file.Path()+"-wal")) },
	"replaced": func(t *testing.T, s *Store) {
		other := filepath.Join(t.TempDir(), "state.db")
		made, _ := openStore(t, other)
		must(t, made.Close())
		must(t, os.Rename(other, s.file.Path()))
	},
	"corrupt": func(t *testing.T, s *Store) {
		damagePages(t, s, "messages")
		err := s.file.Read(t.Context(), func(c *sqlite.Conn) error { // the damage is met by a read
			_, err := c.Row(`SELECT count(*) FROM messages WHERE content > ''`, nil)
			return err
		})
		equal(t, "class", sqlite.ClassOf(err), sqlite.Corrupt)
	},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// damagePages overwrites every page of a b-tree on the disk, after the -wal was moved into the file.
func damagePages(t *testing.T, s *Store, tree string) {
	t.Helper()
	if _, err := s.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := number(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = ?`, tree)
	size := number(t, s, `PRAGMA page_size`)
	file, err := os.OpenFile(s.file.Path(), os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	_, err = file.WriteAt(bytes.Repeat([]byte{0x5a}, int(size)), (root-1)*size)
	must(t, err)
	s.DropIdle() // a reader that has the pages in its memory does not look at the disk
}

func spoolCount(t testing.TB, s *Store) SpoolState {
	t.Helper()
	st, err := s.spool.State()
	must(t, err)
	return st
}

func TestRowsOfAQuarantinedStoreAreSpooledAndNotAcknowledged(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			s, log := testStore(t)
			l := conversation(t, s)
			say(t, s, l, "before")
			damage(t, s)
			_, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "said in vain"}, {Role: "assistant", Content: "answered"}})
			if !errors.Is(err, ErrSpooled) {
				t.Fatalf("append: %v", err)
			}
			equal(t, "kind", problem.KindOf(err), problem.Unavailable)
			for _, part := range []string{s.spool.Dir(), "not acknowledged", "when the store is back", s.file.Path()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			st := spoolCount(t, s)
			equal(t, "rows in the spool", st.Rows, 2)
			info, err := os.Stat(filepath.Join(st.Path, spoolOpen))
			must(t, err)
			equal(t, "mode", info.Mode().Perm(), os.FileMode(0o600))
			equal(t, "log", log.count("rows spooled"), 1)
			if h := s.Health(); h.State != StateQuarantined || h.Reason != name || h.Spool.Rows != 2 || h.Remedy == "" || h.Spool.Since == nil {
				t.Errorf("health: %+v", h)
			}
			if err := s.Writable(); !problem.Is(err, problem.Unavailable) {
				t.Errorf("writable: %v", err)
			}
		})
	}
}

// A store that fails for a reason that passes (its own rules, a full disk) spools nothing.
func TestOnlyAQuarantineFillsTheSpool(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	must(t, s.Release(t.Context(), l))
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "late"}}); !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Append(ctx, l, []NewMessage{{Role: "user", Content: "left"}}); err == nil || errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	equal(t, "spool", spoolCount(t, s).Rows, 0)
}

func TestASpooledRowIsSyncedBeforeAnybodyIsTold(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	must(t, os.Remove(s.file.Path()+"-wal"))
	s.spool.flush = func(*os.File) error { return syscall.EIO }
	_, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "a"}})
	if err == nil || errors.Is(err, ErrSpooled) {
		t.Fatalf("a row that may be gone after a power cut was said to be kept: %v", err)
	}
	if !strings.Contains(err.Error(), "not kept beside it either") {
		t.Errorf("the error does not say the worst: %v", err)
	}
	equal(t, "rows", spoolCount(t, s).Rows, 0)
	synced := int64(0)
	s.spool.flush = func(f *os.File) error {
		info, err := f.Stat()
		synced = info.Size()
		return err
	}
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "b"}}); !errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	equal(t, "bytes synced", synced, spoolCount(t, s).Bytes)
}

func TestASpoolHasABound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(t.Context(), Options{Path: path, SpoolBytes: 4096})
	must(t, err)
	defer s.Close()
	l := conversation(t, s)
	must(t, os.Remove(path+"-wal"))
	for i := 0; ; i++ {
		_, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: strings.Repeat("x", 500)}})
		if errors.Is(err, ErrSpooled) && i < 100 {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "its bound is 4096") || !strings.Contains(err.Error(), "not written") {
			t.Errorf("at the bound: %v", err)
		}
		break
	}
	if st := spoolCount(t, s); st.Bytes > 4096 || st.Rows < 3 {
		t.Errorf("spool: %+v", st)
	}
}

// Cut at any byte, as by a kill in the middle of a write, a spool gives the whole lines and no part of one, and takes new
// ones.
func TestATornSpoolKeepsItsWholeLines(t *testing.T) {
	dir := t.TempDir()
	whole := SpoolOf(filepath.Join(dir, "a"))
	for i := range 3 {
		must(t, whole.put(t.Context(), &spooled{PID: i, Rows: []spooledRow{{UID: fmt.Sprint(i), Role: "user", Content: "héllo <&>\n"}}}))
	}
	data, err := os.ReadFile(whole.file(spoolOpen))
	must(t, err)
	sp := SpoolOf(filepath.Join(dir, "b"))
	must(t, sp.make())
	sp.flush = func(*os.File) error { return nil }
	for cut := range data {
		if cut%3 != 0 && data[max(cut-1, 0)] != '\n' {
			continue
		}
		must(t, os.WriteFile(sp.file(spoolOpen), data[:cut], 0o600))
		must(t, sp.put(t.Context(), &spooled{Rows: []spooledRow{{UID: "new", Role: "user"}}}))
		got := ""
		must(t, sp.each(spoolOpen, func(r *spooled) error {
			got += r.name() + " "
			return nil
		}))
		want := ""
		for i := range bytes.Count(data[:cut], []byte("\n")) {
			want += fmt.Sprint(i) + " "
		}
		equal(t, fmt.Sprintf("cut at %d", cut), got, want+"new ")
	}
}

// A line whose bytes changed is told from one that was written, whatever byte it is.
func TestAChangedByteIsNoticed(t *testing.T) {
	line, err := (&spooled{Rows: []spooledRow{{UID: "u", Role: "user", Content: "text"}}}).line()
	must(t, err)
	line = bytes.TrimSuffix(line, []byte("\n"))
	if _, err := readSpooled(line); err != nil {
		t.Fatal(err)
	}
	for i := range line {
		bad := bytes.Clone(line)
		bad[i] ^= 0x01
		r, err := readSpooled(bad)
		if err == nil && (len(r.Rows) != 1 || r.Rows[0].Content != "text" || r.Rows[0].UID != "u") {
			t.Errorf("byte %d changed and nobody noticed: %s", i, bad)
		}
	}
}
