package sqlite

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/procfs"
)

func TestEveryOtherProcessWithAFileOfTheDatabaseIsAHolder(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	if found, err := Holders(f.Path()); err != nil || len(found) != 0 {
		t.Fatalf("our own process counts: %v, %v", found, err)
	}
	other := newPuppet(t, f.Path())
	link := t.TempDir() + "/link.db"
	if err := os.Symlink(f.Path(), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{f.Path(), link} {
		found, err := Holders(path)
		if err != nil || len(found) != 1 || found[0].PID != other.PID() || found[0].Lost || !strings.Contains(found[0].String(), "process") {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
	for _, part := range []string{"-wal", "-shm"} { // renamed away: by what it has open, not by name
		if err := os.Rename(f.Path()+part, f.Path()+part+".aside"); err != nil {
			t.Fatal(err)
		}
		found, err := Holders(f.Path())
		if err != nil || len(found) != 1 || found[0].PID != other.PID() || !found[0].Lost {
			t.Errorf("%s renamed: %v, %v", part, found, err)
		}
	}
	_ = other.End()
	if found, err := Holders(f.Path()); err != nil || len(found) != 0 {
		t.Errorf("after its end: %v, %v", found, err)
	}
}

func TestADeletedGenerationIsHeldByWhoHasItOpen(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "-wal", "-shm"} {
		o := testOptions(t)
		f := mustOpen(t, o)
		mustWrite(t, f, insert("a"))
		other := newPuppet(t, f.Path())
		if err := os.Remove(f.Path() + part); err != nil {
			t.Fatal(err)
		}
		found, err := Holders(f.Path())
		if err != nil || len(found) != 1 || found[0].PID != other.PID() || found[0].Lost != (part != "") {
			t.Errorf("%q deleted: %+v, %v", part, found, err)
		}
		_ = other.End()
	}
}

// A living file whose link is marked as deleted, as some file systems do, is not lost, and a copy that is being made
// of a -wal is none; what cannot be looked at is.
func TestALostGenerationIsJudgedByInodeAlone(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	real, err := procfs.OwnFiles(func(target string) bool { return strings.HasPrefix(target, f.Path()) })
	if err != nil || len(real) < 3 {
		t.Fatalf("%v, %v", real, err)
	}
	at := func(target string) procfs.FD {
		for _, fd := range real {
			if fd.Target == target {
				fd.PID, fd.Deleted = 1, true
				return fd
			}
		}
		t.Fatalf("no descriptor of %s", target)
		return procfs.FD{}
	}
	main, wal := at(f.Path()), at(f.walPath)
	other, hidden, copied := wal, wal, main
	other.Ino += 1 << 40
	hidden.Dev, hidden.Ino, hidden.Err = 0, 0, syscall.EACCES
	copied.Ino, copied.Target = 1, f.walPath+".copy"
	for _, tc := range []struct {
		name        string
		fds         []procfs.FD
		holds, lost bool
	}{
		{"all of it is there", []procfs.FD{main, wal}, true, false},
		{"another inode under the name", []procfs.FD{main, other}, true, true},
		{"another inode, whoever holds it", []procfs.FD{other}, true, true},
		{"it may not be looked at", []procfs.FD{hidden}, true, true},
		{"a copy is made by a stranger", []procfs.FD{copied}, false, false},
		{"renamed under a holder", []procfs.FD{main, copied}, true, true},
		{"nothing", nil, false, false},
	} {
		found := holdersIn(procfs.Scan{Files: tc.fds}, f.Path())
		if len(found) > 0 != tc.holds || tc.holds && found[0].Lost != tc.lost {
			t.Errorf("%s: %+v", tc.name, found)
		}
	}
}

func TestAProcessThatHidesItsFilesCountsByItsCommandLine(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	other := newPuppet(t, f.Path())
	for _, hidden := range []struct {
		path  string
		found int
	}{{f.Path(), 0}, {os.Args[0], 1}} { // the path of a database that the process was started with
		if found := holdersIn(procfs.Scan{Hidden: []int{other.PID(), 1 << 30}}, hidden.path); len(found) != hidden.found {
			t.Errorf("%s: %+v", hidden.path, found)
		}
	}
}
