package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// rescue is what a File does about a generation that is not on disk any more.
type rescue struct {
	mu    sync.Mutex
	tried bool       // at the halt; Close and Capture try again
	made  *Capture   // the newest
	said  string     // the trouble that was logged last
	kept  []*os.File // descriptors of a connection that had to be given up, for the capture to find
}

// Capture copies what this handle alone still holds into a directory beside the database: the rows of a -wal without
// a name would be gone with the last close. The writer does so itself after it met the loss, and Close will not end
// without it; a capture with the same bytes is made once. It blocks for the copy and waits its turn among the writes.
// A healthy handle is refused with a Conflict problem.
func (f *File) Capture(ctx context.Context) (Capture, error) {
	var got Capture
	err := f.writer.submit(ctx, &request{
		op: Op{Label: "capture"}, deadline: f.deadline(ctx, 0),
		visit: func(c *Conn) (err error) {
			if err := f.compare(); err != nil {
				return err
			}
			if f.halted() == nil {
				return &problem.Error{Kind: problem.Conflict, Thing: f.thing(), What: "is not captured: it lost nothing"}
			}
			got, err = f.capture(ctx, c, "halt")
			return err
		},
	})
	return got, err
}

// rescueOnce captures a loss right after those who met it have their answer.
func (f *File) rescueOnce(c *Conn) {
	if f.halted() == nil || f.rescue.tried {
		return
	}
	f.rescue.tried = true
	f.save(c, "halt")
}

// keepGeneration is the gate of Close: a generation that the disk has no more is captured before its last descriptor
// of ours goes. The loss is looked for here once more, because nobody may have written since.
func (f *File) keepGeneration(c *Conn) error {
	if c == nil && len(f.rescue.kept) == 0 {
		return nil // its connection was given up while the files were all in place
	}
	if err := errors.Join(f.compare(), f.checkContent(c)); err != nil && f.halted() == nil {
		return err // nobody knows what would be lost
	}
	if f.halted() == nil || mutation.On("capture-skipped-at-close") {
		return nil
	}
	if err := f.save(c, "close"); err != nil {
		return err
	}
	for _, file := range f.rescue.kept {
		file.Close()
	}
	f.rescue.kept = nil
	return nil
}

// save captures and says so: one ERROR that tells a loss from a replacement, where the rows are, and who else has
// the lost files open.
func (f *File) save(c *Conn, trigger string) error {
	if f.elsewhere() {
		f.log.Warn("database was moved while it was open; nothing of it is lost", "path", f.path)
		return nil
	}
	got, err := f.capture(context.Background(), c, trigger)
	if err == nil && f.rescue.made != nil && f.rescue.made.Dir == got.Dir {
		return nil // said already
	}
	text := "database lost its write-ahead log while it was open"
	if why, _ := f.why(); why == ReasonReplaced {
		text = "database was replaced while it was open"
	}
	if err != nil && err.Error() == f.rescue.said {
		return err
	}
	others, _ := Holders(f.path)
	log := f.log.With("path", f.path, "pid", pidsOf(others))
	if err != nil {
		f.rescue.said = err.Error()
		log.Error(text+"; what it holds is not captured yet", "error", err)
		return err
	}
	f.rescue.made = &got
	log.Error(text+"; what it holds is captured", "capture", got.Dir)
	return nil
}

func pidsOf(holders []Holder) []int {
	pids := make([]int, 0, len(holders))
	for _, h := range holders {
		pids = append(pids, h.PID)
	}
	return pids
}

// elsewhere: the files were moved together, as with their directory. Then they have names and lose nothing.
func (f *File) elsewhere() bool {
	fds, err := procfs.OwnFiles(procfs.OnDisk)
	if err != nil {
		return false
	}
	main, ok := nameOf(fds, f.ident.main)
	if !ok || main == f.path {
		return false
	}
	if f.ident.wal == (inode{}) {
		return true
	}
	wal, ok := nameOf(fds, f.ident.wal)
	return ok && wal == main+"-wal"
}

// nameOf gives the name under which an open file of ours is to be found, if it has one.
func nameOf(fds []procfs.FD, node inode) (string, bool) {
	for _, fd := range fds {
		if fd.Err == nil && node.is(fd.Dev, fd.Ino) && nodeAt(fd.Target) == node {
			return fd.Target, true
		}
	}
	return "", false
}

// keepNameless holds on to the files of a connection that is given up, when they have no name any more: closing it
// would free them before they are captured.
func (f *File) keepNameless(c *Conn) {
	f.rescue.mu.Lock()
	defer f.rescue.mu.Unlock()
	if f.ident == (identity{}) || f.compare() != nil || f.halted() == nil {
		return
	}
	fds, err := procfs.OwnFiles(procfs.OnDisk)
	if err != nil {
		return
	}
	for _, node := range []inode{f.ident.main, f.ident.wal, f.ident.shm} {
		if node == (inode{}) {
			continue
		}
		if file, err := openOwn(fds, node); err == nil {
			f.rescue.kept = append(f.rescue.kept, file)
		}
	}
}

// dropForeignWAL moves the -wal of a replaced database into its capture once nobody has it open: SQLite would play
// it into the database that lies there now, which it does not belong to. It comes after the last close.
func (f *File) dropForeignWAL() {
	made := f.rescue.made
	if made == nil || !f.Replaced() || f.ident.wal == (inode{}) || nodeAt(f.path) == (inode{}) || nodeAt(f.walPath) != f.ident.wal {
		return
	}
	if others, err := Holders(f.path); err != nil || len(others) > 0 || own.has(f.path) {
		return // they go on with it; an open is refused as long as they do
	}
	err := os.Rename(f.walPath, filepath.Join(made.Dir, filepath.Base(f.walPath)+".left"))
	if err == nil && nodeAt(f.shmPath) == f.ident.shm {
		err = os.Remove(f.shmPath)
	}
	if err != nil {
		f.log.Error("write-ahead log of a replaced database cannot be moved away; remove it before the new one is opened",
			"path", f.walPath, "error", err)
	}
}

// handles are the open Files of this process, by path.
type handles struct {
	mu     sync.Mutex
	byPath map[string][]*File
}

var own handles

func (h *handles) add(f *File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byPath == nil {
		h.byPath = map[string][]*File{}
	}
	h.byPath[f.path] = append(h.byPath[f.path], f)
}

func (h *handles) remove(f *File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.byPath[f.path], func(g *File) bool { return g == f })
	if h.byPath[f.path] = left; len(left) == 0 {
		delete(h.byPath, f.path)
	}
}

func (h *handles) has(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byPath[path]) > 0
}

// lost reports a handle of ours whose sidecars, or whose database beside these sidecars, are not on disk any more.
func (h *handles) lost(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	here := identity{nodeAt(path), nodeAt(path + "-wal"), nodeAt(path + "-shm")}
	return slices.ContainsFunc(h.byPath[path], func(f *File) bool {
		return f.ident.wal != inode{} && f.ident != here
	})
}
