package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// JournalConfig is what the configuration asks for.
type JournalConfig struct {
	Mode  string // "wal" or "" (WAL where it works), "delete"
	Force bool   // take WAL even on a file system that is known not to carry it
}

// Journal is what a database really uses, and why.
type Journal struct {
	Mode   string // "wal" or "delete"
	Reason string

	// assumed: nobody could read the mode, so nothing was touched and no reader is opened.
	assumed bool
}

// disk is what the decision looks at and acts on; tests give it faked errors.
type disk interface {
	probe() (string, error)          // PRAGMA journal_mode, which changes nothing
	header() (version byte)          // bytes 18 and 19: 1 rollback, 2 WAL, 0 empty, anything else unreadable
	set(mode string) (string, error) // PRAGMA journal_mode=…; gives the mode SQLite answers
	fstype() string                  // of the directory, "" unknown
	wait(time.Duration) error
}

// The tries are few and short: they ride out a peer's open or close, not an outage.
const (
	probeTries  = 4
	probePause  = 50 * time.Millisecond
	enableTries = 3
	enablePause = time.Second
)

// headerUnreadable is no version any SQLite writes.
const headerUnreadable = 0xff

// decider settles the journal mode of one open.
type decider struct {
	disk   disk
	config JournalConfig
	log    *slog.Logger
	admit  func() error // refuses a file that is not ours, by reading it
	unsafe string       // the version of a SQLite that must not enter WAL; "" may
}

// decide finds or sets the journal mode. Its rules, in order: an I/O error is raised, never answered by leaving
// WAL; an on-disk WAL database, or one whose mode cannot be read, is never switched by an opener; what SQLite
// answers counts, not the absence of an error.
func (d *decider) decide() (Journal, error) {
	mode, err := d.probe()
	if err != nil {
		return d.undecided(err)
	}
	if mode == "wal" {
		return d.keepWAL(), nil
	}
	return d.choose()
}

// probe asks for the mode, again while the disk hiccups.
func (d *decider) probe() (string, error) {
	for try := 1; ; try++ {
		mode, err := d.disk.probe()
		if err == nil || ClassOf(err) != IO || isProtocol(err) || try == probeTries {
			return strings.ToLower(mode), err
		}
		if err := d.disk.wait(probePause); err != nil {
			return "", err
		}
	}
}

// undecided handles a probe that failed. Damage, I/O errors and locks are the caller's to hear; anything else
// leaves the word to the header on disk.
func (d *decider) undecided(err error) (Journal, error) {
	if class := ClassOf(err); class != Other && !isProtocol(err) && !isAuth(err) {
		return Journal{}, fmt.Errorf("probe journal mode: %w", err)
	}
	switch d.disk.header() {
	case 0, 1:
		return d.choose()
	case 2:
		d.log.Warn("journal mode cannot be probed, the header says WAL, nothing is touched", "error", err)
		return Journal{Mode: "wal", Reason: "assumed: the header says WAL and the mode cannot be read", assumed: true}, nil
	}
	d.log.Warn("journal mode cannot be probed or read, nothing is touched", "error", err)
	return Journal{Mode: "wal", Reason: "assumed: neither the mode nor the header can be read", assumed: true}, nil
}

func (d *decider) keepWAL() Journal {
	if d.unsafe != "" {
		d.log.Warn("this release of SQLite can lose a commit where two processes restart the write-ahead log",
			"version", d.unsafe, "remedy", "let one program alone write, or use another release")
	}
	if d.config.Mode == "delete" {
		d.log.Error("configured journal mode delete is ignored: the database is in WAL; convert it offline")
	}
	if reason, remedy := noWAL(d.disk.fstype()); reason != "" && !d.config.Force {
		d.log.Error("database in WAL lies on a file system that does not carry it", "reason", reason, "remedy", remedy)
	}
	return Journal{Mode: "wal", Reason: "the database on disk is in WAL"}
}

// choose is for a database in rollback mode or a new one.
func (d *decider) choose() (Journal, error) {
	if err := d.admit(); err != nil {
		return Journal{}, err
	}
	if d.config.Mode == "delete" {
		return d.rollback("configured")
	}
	if d.unsafe != "" {
		return d.rollback("SQLite " + d.unsafe + " can lose a commit in WAL")
	}
	if reason, remedy := noWAL(d.disk.fstype()); reason != "" && !d.config.Force {
		d.log.Warn("database is kept in rollback mode", "reason", reason, "remedy", remedy)
		return d.rollback(reason)
	}
	return d.enable()
}

// enable switches to WAL.
func (d *decider) enable() (Journal, error) {
	was := d.disk.header()
	for try := 1; ; try++ {
		mode, err := d.disk.set("wal")
		switch {
		case err == nil && strings.EqualFold(mode, "wal"):
			return d.enabled(was), nil
		case err == nil:
			d.log.Error("SQLite refused WAL without an error", "answer", mode)
			return d.rollback("SQLite refused WAL")
		case isProtocol(err) || isAuth(err):
			return d.refused(err)
		}
		pause, tries := enablePause, enableTries
		if ClassOf(err) == IO {
			pause = probePause
		}
		if class := ClassOf(err); (class != Busy && class != IO) || try == tries {
			return Journal{}, fmt.Errorf("enable WAL: %w", err)
		}
		if err := d.disk.wait(pause); err != nil {
			return Journal{}, err
		}
	}
}

func (d *decider) enabled(was byte) Journal {
	if was == 1 {
		d.log.Warn("database was in rollback mode and is in WAL from now on")
		return Journal{Mode: "wal", Reason: "this file system carries WAL; the file was in rollback mode before"}
	}
	return Journal{Mode: "wal", Reason: "a new file, on a file system that carries WAL"}
}

// refused: the lock service or an authorizer said no. The mode on disk is read again before leaving WAL, because
// a peer may have been faster.
func (d *decider) refused(cause error) (Journal, error) {
	mode, err := d.probe()
	if err != nil || mode == "wal" {
		return Journal{}, fmt.Errorf("enable WAL: %w", cause)
	}
	d.log.Error("WAL is not possible here, the database is kept in rollback mode", "error", cause)
	return d.rollback("WAL was refused: " + cause.Error())
}

// rollback asks for DELETE without waiting and believes only the answer.
func (d *decider) rollback(reason string) (Journal, error) {
	mode, err := d.disk.set("delete")
	if err != nil {
		return Journal{}, fmt.Errorf("set journal mode delete: %w", err)
	}
	if strings.EqualFold(mode, "wal") {
		return d.keepWAL(), nil
	}
	if !strings.EqualFold(mode, "delete") {
		return Journal{}, fmt.Errorf("set journal mode delete: SQLite says %q", mode)
	}
	return Journal{Mode: "delete", Reason: reason}, nil
}

func isProtocol(err error) bool { return errors.Is(err, sqlite3.PROTOCOL) }

func isAuth(err error) bool { return errors.Is(err, sqlite3.AUTH) }
