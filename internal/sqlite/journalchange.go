package sqlite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"gatewayd/internal/problem"
)

// JournalChange says what SetJournalMode did.
type JournalChange struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// maintenanceLockWait is how long a repair, a restore or a change of journal waits for another one to end.
const maintenanceLockWait = 2 * time.Minute

func repairLockPath(path string) string { return path + ".repair.lock" }

// SetJournalMode changes a database to "wal" or "delete" while nobody has it open. It refuses a file that any process
// holds, and one that is damaged. The answer of SQLite and the header on disk are both asked whether it happened.
func SetJournalMode(ctx context.Context, path, label, mode string) (JournalChange, error) {
	f, err := newFile(Options{Path: path, Label: label})
	if err != nil {
		return JournalChange{}, err
	}
	if mode != "wal" && mode != "delete" {
		return JournalChange{}, f.refuse(Other, problem.Invalid, fmt.Sprintf("has no journal mode %q", mode), "name wal or delete", nil)
	}
	if err := f.preflight(ctx); err != nil {
		return JournalChange{}, err
	}
	lock, err := takeLock(ctx, repairLockPath(f.path), maintenanceLockWait)
	if err != nil {
		return JournalChange{}, f.explain(err, "it was left as it is")
	}
	defer lock.Close()
	c, err := f.sole(ctx, OpJournalChange)
	if err != nil {
		return JournalChange{}, err
	}
	defer f.drop(c)
	change := JournalChange{Path: f.path}
	err = guard(func() error { return f.changeJournal(c, mode, &change) })
	return change, f.explain(err, "its rows were left as they are")
}

func (f *File) changeJournal(c *Conn, mode string, change *JournalChange) (err error) {
	if err := c.mustBeWhole(); err != nil {
		return err
	}
	if change.From, err = c.pragma("journal_mode"); err != nil {
		return fmt.Errorf("probe journal mode: %w", err)
	}
	change.To = change.From
	if change.From == mode {
		return nil
	}
	if change.To, err = c.pragma("journal_mode=" + mode); err != nil {
		return fmt.Errorf("set journal mode %s: %w", mode, err)
	}
	if !strings.EqualFold(change.To, mode) {
		return fmt.Errorf("set journal mode %s: SQLite says %q", mode, change.To)
	}
	return f.headerSays(mode)
}

// mustBeWhole refuses a database with damage to its pages.
func (c *Conn) mustBeWhole() error {
	faults, err := c.faults()
	if err != nil {
		return err
	}
	for _, text := range faults {
		if !aboutIndex(text) {
			return classify(Corrupt, "integrity check: %s", text)
		}
	}
	return nil
}

// headerSays reads the mode where every other program will.
func (f *File) headerSays(mode string) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	head, err := readHeader(file)
	if err != nil {
		return err
	}
	want := byte(1)
	if mode == "wal" {
		want = 2
	}
	if len(head) < headerSize || head[headerWriteVer] != want || head[headerReadVer] != want {
		return fmt.Errorf("set journal mode %s: the header on disk does not say so", mode)
	}
	return nil
}
