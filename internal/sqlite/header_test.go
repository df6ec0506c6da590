package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/problem"
)

// valid is a small healthy database as bytes, all of it in the main file.
func valid(t *testing.T) []byte {
	t.Helper()
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	if _, err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	data, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(content []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNotADatabaseIsRefusedAndLeftAlone(t *testing.T) {
	good := valid(t)
	mangled := bytes.Clone(good)
	copy(mangled[100:], bytes.Repeat([]byte{0xfe}, 400))
	for _, tc := range []struct {
		name  string
		make  func(*testing.T, string)
		class Class
		says  string
	}{
		{"missing directory as a file", func(t *testing.T, p string) { os.Mkdir(p, 0o700) }, NotADatabase, "is a directory"},
		{"a FIFO", func(t *testing.T, p string) { syscall.Mkfifo(p, 0o600) }, NotADatabase, "not a regular file"},
		{"text", put([]byte("hello, this is a text file\n")), NotADatabase, "file is not a database: invalid SQLite header"},
		{"one byte", put([]byte{'S'}), NotADatabase, "invalid SQLite header"},
		{"zero pages", put(make([]byte, 8192)), NotADatabase, "invalid SQLite header"},
		{"a TLS record", put([]byte("\x17\x03\x03\x00\x50 some cipher text that is long enough")), NotADatabase, "TLS record"},
		{"a TLS record after five bytes", put([]byte("SQLit\x16\x03\x01 some cipher text that is long")), NotADatabase, "TLS record"},
		{"only the magic", put([]byte(magic)), NotADatabase, "invalid SQLite header"},
		{"truncated by a page", put(good[:len(good)-4096]), Corrupt, "damaged"},
		{"truncated in the middle of the header", put(good[:60]), NotADatabase, "invalid SQLite header"},
		{"schema page mangled", put(mangled), Corrupt, "damaged"},
		{"empty with a -wal", func(t *testing.T, p string) { put(nil)(t, p); put(good)(t, p+"-wal") }, Corrupt, "-wal is still there"},
		{"empty with a backup", func(t *testing.T, p string) {
			put(nil)(t, p)
			put(good)(t, p+".corrupt.0123456789abcdef.bak")
		}, Corrupt, "once was not"},
		{"gone with a -wal left", func(t *testing.T, p string) { put(good)(t, p+"-wal") }, Corrupt, "is gone, but its -wal"},
		{"a link to nothing", func(t *testing.T, p string) { os.Symlink("elsewhere.db", p) }, Missing, "is a symbolic link to elsewhere.db, which"},
		{"a link to itself", func(t *testing.T, p string) { os.Symlink(p, p) }, Other, "cannot be reached"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t)
			o.Path = filepath.Join(t.TempDir(), "board.db")
			tc.make(t, o.Path)
			before := tree(t, filepath.Dir(o.Path))
			f, err := Open(context.Background(), o)
			if err == nil {
				f.Close()
				t.Fatal("it was opened")
			}
			if ClassOf(err) != tc.class {
				t.Errorf("class = %s, want %s: %v", ClassOf(err), tc.class, err)
			}
			text := err.Error()
			if !strings.Contains(text, tc.says) || !strings.Contains(text, "board.db") || !strings.Contains(text, "left as it is") {
				t.Errorf("text: %s", text)
			}
			if strings.Contains(text, "\n") {
				t.Errorf("more than one line: %q", text)
			}
			if after := tree(t, filepath.Dir(o.Path)); after != before {
				t.Errorf("changed:\n%s\nwas:\n%s", after, before)
			}
		})
	}
}

// tree describes the files of a directory with their content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		var sum [sha256.Size]byte
		if e.Type().IsRegular() {
			data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			if strings.HasSuffix(e.Name(), "-shm") || len(data) == 0 && strings.HasSuffix(e.Name(), "-wal") {
				continue // SQLite makes these to look at a database in WAL; they hold nothing
			}
			sum = sha256.Sum256(data)
		}
		fmt.Fprintf(&b, "%v %s %x\n", e.Type(), e.Name(), sum)
	}
	return b.String()
}

func TestAMissingFileIsNotCreatedUnasked(t *testing.T) {
	o := testOptions(t)
	o.Create = false
	_, err := Open(t.Context(), o)
	if ClassOf(err) != Missing || !problem.Is(err, problem.NotFound) {
		t.Errorf("got %v", err)
	}
	put(nil)(t, o.Path)
	if _, err := Open(t.Context(), o); ClassOf(err) != Missing {
		t.Errorf("an empty file: got %v", err)
	}
}

func TestANewFileIsPrivateAndSoAreItsSidecars(t *testing.T) {
	o := testOptions(t)
	o.Path = filepath.Join(filepath.Dir(o.Path), "new", "home", "state.db")
	mustWrite(t, mustOpen(t, o), insert("a"))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(o.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(o.Path+suffix), info.Mode())
		}
	}
}

func TestASteadyStateOpenWritesNothing(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	f.Close()
	before := TakeFingerprint(o.Path)
	mains, wals := content(t, o.Path), content(t, o.Path+"-wal")
	for range 3 {
		g := mustOpen(t, o)
		count(t, g)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := TakeFingerprint(o.Path); after != before {
		t.Errorf("fingerprint %+v, was %+v", after, before)
	}
	if content(t, o.Path) != mains || content(t, o.Path+"-wal") != wals {
		t.Error("content changed")
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
