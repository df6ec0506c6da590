package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// lockName is the file in the home whose lock says that a daemon lives there. The lock is an open file
// description lock: it goes with the process however that ends, no other descriptor in the process can cancel
// it, and it can be asked about without being taken, so that `status` never gets in a starting daemon's way.
const lockName = "gatewayd.lock"

// Holder is the record inside the lock file. It is only true while the lock is held, and the lock alone decides who holds the home: another
// container counts its pids anew. One thing is concluded from a pid of this namespace: see beside.
type Holder struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // ticks since boot, as /proc tells it: a pid alone may be somebody else's by now
	Boot  string    `json:"boot"`
	Host  string    `json:"host,omitempty"`  // the name of its machine or container
	PIDNS string    `json:"pidns,omitempty"` // the pid namespace in which PID means something
	Addr  string    `json:"addr,omitempty"`  // the bound address of the API; empty until Announce
	Dir   string    `json:"dir,omitempty"`   // the home as its daemon calls it
	Since time.Time `json:"since"`
}

// String names the holder for a person.
func (h Holder) String() string {
	if h.PID == 0 {
		return "another daemon"
	}
	text := fmt.Sprintf("the daemon with pid %d, running since %s", h.PID, h.Since.Local().Format(time.DateTime))
	if h.elsewhere() {
		text = fmt.Sprintf("the daemon of another container, %s (pid %d there), running since %s", h.Host, h.PID, h.Since.Local().Format(time.DateTime))
	}
	if h.Addr != "" {
		text += ", on " + h.Addr
	}
	return text
}

// elsewhere: its pid says nothing to this process.
func (h Holder) elsewhere() bool { return h.PIDNS != "" && h.PIDNS != procfs.PIDNamespace() }

// Self is this process as a holder.
func Self() (Holder, error) {
	self, err := procfs.Self()
	if err != nil {
		return Holder{}, fmt.Errorf("identify this process: %w", err)
	}
	host, _ := os.Hostname() // only for people
	return Holder{PID: self.PID, Start: self.Start, Boot: self.Boot, Host: host, PIDNS: procfs.PIDNamespace(), Since: time.Now()}, nil
}

// HomeLock is a held home. It is not safe for concurrent use.
type HomeLock struct {
	// Warnings are about the home itself, such as one that others may read.
	Warnings []string

	dir    string
	file   *os.File
	holder Holder
}

// HoldHome makes the home where it is missing (0700) and locks it for this daemon. A home that is held gives
// a problem of kind Busy that names the holder; one that cannot be used gives kind Config or Full. It does not wait.
func HoldHome(dir string, who Holder) (*HomeLock, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		who.Dir = abs
	}
	h := &HomeLock{dir: dir, holder: who}
	if err := h.prepare(); err != nil {
		return nil, err
	}
	if err := h.lock(); err != nil {
		return nil, err
	}
	if err := h.write(); err != nil {
		_ = h.file.Close()
		return nil, err
	}
	return h, nil
}

// prepare makes the directory. An existing one keeps its mode: it may be a mounted volume, whose mode is its owner's.
func (h *HomeLock) prepare() error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return homeProblem(h.dir, err)
	}
	info, err := os.Stat(h.dir)
	if err != nil {
		return homeProblem(h.dir, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("home %s is open to other users (mode %04o): `chmod 700 %s` closes it",
			h.dir, info.Mode().Perm(), h.dir))
	}
	return nil
}

func (h *HomeLock) lock() error {
	path := filepath.Join(h.dir, lockName)
	file, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return homeProblem(h.dir, err)
	}
	held, err := takeLock(file)
	switch {
	case held && !mutation.On("home-lock-is-ignored"):
		holder := readHolder(file)
		_ = file.Close()
		return heldProblem(h.dir, holder.String())
	case err != nil:
		_ = file.Close()
		return &problem.Error{
			Kind: problem.Config, Thing: "home " + h.dir, What: "cannot be locked", Fate: "nothing was opened",
			Remedy: "put it on a file system that supports locks", Err: err,
		}
	}
	if holder := readHolder(file); holder.beside(file) {
		_ = file.Close()
		return heldProblem(h.dir, holder.String()+", which calls it "+holder.Dir)
	}
	h.file = file
	return nil
}

func openLock(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|lockFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.Join(err, errors.New("it is not a regular file"))}
	}
	return file, nil
}

func readHolder(file *os.File) Holder {
	var holder Holder
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, 4096))
	if json.Unmarshal(text, &holder) != nil {
		return Holder{} // its owner is writing it now, or never did
	}
	return holder
}

// beside tells whether the home is held although its lock is free: a file system that keeps locks to itself, as FUSE may, does not let
// meet who came by the mount and who came by the directory behind it. Then the process of the record runs, and calls the same file by
// another path. A copy of a home is another file, and what was killed runs no more.
func (h Holder) beside(file *os.File) bool {
	id := procfs.Identity{PID: h.PID, Start: h.Start, Boot: h.Boot}
	if h.Dir == "" || h.elsewhere() || h.PID == os.Getpid() || !id.Known() || !id.Alive() || mutation.On("lock-beside-is-unseen") {
		return false
	}
	theirs := filepath.Join(h.Dir, lockName)
	return sameChange(file, theirs) && !sameInode(file, theirs)
}

// sameInode: then the free lock is the one that they would have, and it is free.
func sameInode(file *os.File, path string) bool {
	mine, err := file.Stat()
	theirs, terr := os.Stat(path)
	return err == nil && terr == nil && os.SameFile(mine, theirs)
}

// write replaces the record: longer or shorter, its reader sees either JSON or something that is none.
func (h *HomeLock) write() error {
	text, err := json.Marshal(h.holder)
	if err != nil {
		return fmt.Errorf("encode holder: %w", err)
	}
	if err := h.file.Truncate(0); err != nil {
		return homeProblem(h.dir, err)
	}
	if _, err := h.file.WriteAt(append(text, '\n'), 0); err != nil {
		return homeProblem(h.dir, err)
	}
	return nil
}

// Announce adds the bound address to the record, for `status` and for the next daemon that finds the home held.
func (h *HomeLock) Announce(addr string) error {
	h.holder.Addr = addr
	return h.write()
}

// Release lets the home go. The file stays: removing it would let two daemons lock two files of one name.
func (h *HomeLock) Release() error {
	if err := h.file.Truncate(0); err != nil {
		return errors.Join(fmt.Errorf("clear holder: %w", err), h.file.Close())
	}
	return h.file.Close()
}

// HolderOf tells who holds a home, without touching the lock. A home that does not exist is not held. It only reads, so
// it answers on a read-only file system too.
func HolderOf(dir string) (holder Holder, held bool, err error) {
	file, err := openLock(filepath.Join(dir, lockName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, askProblem(dir, err)
	}
	defer file.Close()
	if held, err = askLock(file); err != nil {
		return Holder{}, false, err
	}
	if holder = readHolder(file); held || holder.beside(file) {
		return holder, true, nil
	}
	return Holder{}, false, nil
}

func heldProblem(dir, holder string) error {
	return &problem.Error{
		Kind: problem.Busy, Thing: "home " + dir, What: "is held by " + holder,
		Fate: "nothing was touched", Remedy: "stop that daemon or give this one another --home",
	}
}

// askProblem says what keeps a home from being asked about: a question has nothing to undo.
func askProblem(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return noAccess(dir, err)
	}
	p := homeProblem(dir, err)
	p.Fate = ""
	return p
}

// noAccess: the caller cannot look into the home at all.
func noAccess(dir string, err error) *problem.Error {
	return &problem.Error{
		Kind: problem.Config, Thing: "home " + dir, What: fmt.Sprintf("is not accessible for this user (uid %d)", os.Getuid()),
		Remedy: "change its owner or give another --home", Err: err,
	}
}

// homeProblem says what keeps a home from being used. The lock's own file may be there by then, so all that is promised is that
// nothing in the home was opened.
func homeProblem(dir string, err error) *problem.Error {
	p := &problem.Error{
		Kind: problem.Config, Thing: "home " + dir, What: "cannot be used", Fate: "nothing was opened",
		Remedy: "give another --home", Err: err,
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		p.What, p.Remedy = "is on a read-only file system", "mount it writable or give another --home"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		p.What = fmt.Sprintf("is not writable for this user (uid %d)", os.Getuid())
		p.Remedy = "change its owner or give another --home"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		p.What, p.Remedy = "is not a directory: a file is in its place", "move the file away or give another --home"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		p.Kind, p.What, p.Remedy = problem.Full, "has no space left", "free some space"
	}
	return p
}
