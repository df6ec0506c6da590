package kanban

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func TestForensicCopyIsMadeOncePerContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	for name, text := range map[string]string{"": "damaged", "-wal": "wal", "-shm": "shm"} {
		if err := os.WriteFile(path+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := BackupCorrupt(path)
	if err != nil {
		t.Fatal(err)
	}
	if first != path+".corrupt.aab05b4edfbed604.bak" && !strings.HasPrefix(first, path+".corrupt.") {
		t.Errorf("copy: %s", first)
	}
	for name, text := range map[string]string{"": "damaged", "-wal": "wal", "-shm": "shm"} {
		if fileBytes(t, first+name) != text || fileBytes(t, path+name) != text {
			t.Errorf("%q: the copy holds %q, the file %q", name, fileBytes(t, first+name), fileBytes(t, path+name))
		}
	}
	if again, err := BackupCorrupt(path); err != nil || again != first {
		t.Errorf("second copy: %s, %v", again, err)
	}
	if err := os.WriteFile(path, []byte("damaged otherwise"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := BackupCorrupt(path); err != nil || other == first {
		t.Errorf("copy of another content: %s, %v", other, err)
	}
}

func TestTenForensicCopiesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban[1].db")
	var made []string
	for i := range keepCorrupt + 3 {
		if err := os.WriteFile(path, fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
		name, err := BackupCorrupt(path)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-100) * time.Hour)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
		made = append(made, name)
	}
	for i, name := range made {
		_, err := os.Stat(name)
		if kept := err == nil; kept != (i >= 3) {
			t.Errorf("copy %d is kept: %v", i, kept)
		}
	}
}

func TestDamageUnderAnOpenBoardIsTyped(t *testing.T) {
	b := newBoard(t)
	for range 40 {
		b.make(t, NewTask{Body: strings.Repeat("x", 2000)})
	}
	if _, err := b.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.Path() + "-wal"); err != nil {
		t.Fatal(err)
	}
	text := []byte(fileBytes(t, b.Path()))
	for i := 4096 * 8; i < len(text); i++ {
		text[i] = 0x55
	}
	if err := os.WriteFile(b.Path(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := Open(t.Context(), Options{Path: b.Path(), Slug: "work"})
	if err == nil {
		defer damaged.Close()
		_, err = damaged.List(t.Context(), Filter{})
	}
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "board work") {
		t.Errorf("reading a damaged board: %v", err)
	}
	if fileBytes(t, b.Path()) != string(text) {
		t.Error("a damaged board was written to")
	}
}

func TestWhatIsNoDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte("just some words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, dir} {
		for _, create := range []bool{false, true} {
			_, err := Open(t.Context(), Options{Path: path, Create: create})
			if !errors.Is(err, ErrCorruptBoard) || !problem.Is(err, problem.Damaged) {
				t.Errorf("open %s: %v", path, err)
			}
		}
	}
	if fileBytes(t, text) != "just some words" {
		t.Error("a text file was overwritten")
	}
}

func TestALostBoardIsNotStartedAfresh(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kanban.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".corrupt.0123456789abcdef.bak", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path, Create: true}); !problem.Is(err, problem.Damaged) {
		t.Errorf("an empty file beside a forensic copy: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Error("the empty file was filled")
	}
}

// claimMorePages makes the header say that the file is a page longer than it is, as an extension that was torn off does,
// while the verb runs.
func claimMorePages(t *testing.T, b *Board, verb func() error) error {
	t.Helper()
	if _, err := b.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(b.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count, more := make([]byte, 4), make([]byte, 4)
	if _, err := f.ReadAt(count, headerPageCount); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(more, binary.BigEndian.Uint32(count)+1)
	if _, err := f.WriteAt(more, headerPageCount); err != nil {
		t.Fatal(err)
	}
	defer f.WriteAt(count, headerPageCount)
	return verb()
}

func TestTornFileIsSaidOfAVerbThatIsStored(t *testing.T) {
	b := newBoard(t)
	var card Task
	err := claimMorePages(t, b, func() (err error) {
		card, err = b.Create(t.Context(), NewTask{Title: "stored"})
		return err
	})
	if !Committed(err) || !strings.Contains(err.Error(), "torn-extend detected: page count mismatch") || card.ID == "" {
		t.Fatalf("create: %+v, %v", card, err)
	}
	if got := b.get(t, card.ID); got.Title != "stored" {
		t.Errorf("card: %+v", got)
	}
	var claim Claim
	err = claimMorePages(t, b, func() (err error) {
		claim, err = b.Claim(t.Context(), card.ID, Claimer{})
		return err
	})
	if !Committed(err) || claim.Run.ID == 0 {
		t.Errorf("claim: %+v, %v", claim, err)
	}
	// A refusal must not hide behind it: who hears "stored" takes the card for done.
	err = claimMorePages(t, b, func() error {
		return b.Complete(t.Context(), card.ID, Completion{Run: &claim.Run.ID, Summary: "s", CreatedCards: []string{"t_deadbeef"}})
	})
	if wantErr(t, err, ErrPhantomCards); Committed(err) {
		t.Errorf("a refused completion counts as stored: %v", err)
	}
	b.wantStatus(t, card.ID, StatusRunning)
}
