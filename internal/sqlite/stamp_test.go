package sqlite

import (
	"os"
	"testing"
	"time"
)

func TestAStampChangesWithEveryCommitAndOnlyThen(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode, o.AutoCheckpoint = mode, 100
			f := mustOpen(t, o)
			stamp := func() Stamp {
				t.Helper()
				s, err := f.Stamp()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			first := stamp()
			count(t, f)
			if stamp() != first {
				t.Error("a read changed it")
			}
			mustWrite(t, f, insert("ours"))
			second := stamp()
			if second == first {
				t.Error("our own commit is not seen")
			}
			runCLI(t, cli(t), f.Path(), "INSERT INTO rows (uid) VALUES ('foreign')")
			third := stamp()
			if third == second {
				t.Error("a foreign commit is not seen")
			}
			if stamp() != third {
				t.Error("it changes by itself")
			}
		})
	}
}

func TestAStampOfADeleteDatabaseNeverWaits(t *testing.T) {
	o := testOptions(t)
	o.Journal.Mode = "delete"
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	db := rawConn(t, f.Path())
	if err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := f.Stamp(); err != nil {
		t.Errorf("the first one, while locked: %v", err)
	}
	if took := time.Since(start); took > busyTimeout/2 {
		t.Errorf("the first one waited %s", took)
	}
	if err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	before, err := f.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	if now, err := f.Stamp(); err != nil || now != before {
		t.Errorf("while locked: %v, changed=%t", err, now != before)
	}
	if err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

func TestAStampSurvivesAFaultOfTheWriter(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	truncateShm(t, f)
	mustWrite(t, f, insert("b"))
	if _, err := f.Stamp(); err != nil {
		t.Error(err)
	}
}

func TestAFingerprintTellsAChangedFile(t *testing.T) {
	o := testOptions(t)
	if got := TakeFingerprint(o.Path); got != (Fingerprint{}) {
		t.Errorf("of nothing: %+v", got)
	}
	f := mustOpen(t, o)
	first := TakeFingerprint(f.Path())
	mustWrite(t, f, insert("a"))
	if got := TakeFingerprint(f.Path()); got == first || got.Main != first.Main {
		t.Errorf("a commit in the -wal: %+v, was %+v", got, first)
	}
	f.Close()
	second := TakeFingerprint(f.Path())
	if err := os.Remove(f.Path() + "-wal"); err != nil {
		t.Fatal(err)
	}
	if got := TakeFingerprint(f.Path()); got == second || got.WAL.There {
		t.Errorf("without a -wal: %+v", got)
	}
}
