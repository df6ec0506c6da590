package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// The bounds of captures. Sixteen losses in a quarter of an hour once wrote more than four gigabytes; a disk that is
// filled by a rescue loses more than it saves.
const (
	captureMainMax  = 512 << 20 // a larger database is captured by its header and its -wal
	captureCount    = 3         // whole ones beside one database; beyond it header and -wal only
	captureBytesMax = 2 << 30
	captureHeadroom = 256 << 20 // left free on the disk
)

// capturing: one capture at a time in this process. Two handles of one generation would copy the same files.
var capturing sync.Mutex

// capture copies the generation that this handle holds and the disk does not. It is found among our own descriptors
// by the inodes that were taken down at open, never by a name.
//
// In WAL it runs in a read transaction of the connection, so that no process of the same generation starts the -wal anew
// between the copies of the two files. A transaction that is half written there is not taken for a committed one:
// the frames that SQLite plays back end with the last that has the mark of a commit and a right checksum, and that
// chain breaks off at a torn or foreign frame.
func (f *File) capture(ctx context.Context, c *Conn, trigger string) (Capture, error) {
	capturing.Lock()
	defer capturing.Unlock()
	if f.journal.Mode != "wal" {
		got, err := f.captureStill(ctx, c, trigger)
		if err != nil {
			return Capture{}, f.uncaptured(err)
		}
		return got, nil
	}
	var got Capture
	var err error
	began := false
	if c != nil {
		err = guard(func() error {
			return c.inRead(ctx, func(c *Conn) error {
				if _, err := c.pragma("schema_version"); err != nil { // the read that takes the snapshot
					return err
				}
				began = true
				var err error
				got, err = f.stageHeld(trigger, "")
				return err
			})
		})
	}
	if !began {
		note := "copied without a read transaction"
		if err != nil {
			note += ": " + err.Error()
		}
		got, err = f.stageHeld(trigger, note)
	}
	if err != nil {
		return Capture{}, f.uncaptured(err)
	}
	return got, nil
}

func (f *File) uncaptured(err error) error {
	e := &problem.Error{
		Kind: problem.Unavailable, Thing: f.thing(), What: "lost its files on disk, and what is still open of them cannot be captured",
		Fate: "it stays open and holds the rows; the capture is tried again", Remedy: "free some space beside it and do not stop the program until that is done", Err: err,
	}
	switch ClassOf(f.spaceDecides(err)) {
	case NoSpace:
		e.Kind = problem.Full
	case Busy:
		e.Kind, e.Remedy = problem.Busy, "stop the other process that is in the middle of a transaction there, and do not stop this one until that is done"
	}
	return e
}

// relic is the lost generation, open for reading.
type relic struct {
	main, wal, shm *os.File
}

func (r *relic) close() {
	for _, file := range []*os.File{r.main, r.wal, r.shm} {
		if file != nil {
			file.Close()
		}
	}
}

// relic opens what our descriptors lead to.
func (f *File) relic() (*relic, error) {
	fds, err := procfs.OwnFiles(procfs.OnDisk)
	if err != nil {
		return nil, fmt.Errorf("look at our own descriptors: %w", err)
	}
	r := &relic{}
	for _, part := range []struct {
		node inode
		name string
		into **os.File
	}{{f.ident.main, "database", &r.main}, {f.ident.wal, "-wal", &r.wal}, {f.ident.shm, "-shm", &r.shm}} {
		if part.node == (inode{}) {
			continue
		}
		if *part.into, err = openOwn(fds, part.node); err != nil {
			r.close()
			return nil, fmt.Errorf("open the %s: %w", part.name, err)
		}
	}
	return r, nil
}

// openOwn opens a file of our own anew, by inode. The new description has no part in the old one's locks.
func openOwn(fds []procfs.FD, node inode) (*os.File, error) {
	for _, fd := range fds {
		if fd.Err == nil && node.is(fd.Dev, fd.Ino) {
			return os.Open(procfs.FDPath(uintptr(fd.FD)))
		}
	}
	return nil, errors.New("none of our descriptors leads to it")
}

// stageHeld is stage of what our descriptors lead to.
func (f *File) stageHeld(trigger, note string) (Capture, error) {
	r, err := f.relic()
	if err != nil {
		return Capture{}, err
	}
	defer r.close()
	return f.stage(r, Manifest{Trigger: trigger, Note: note})
}

// stage makes a capture, or finds the one that has the same bytes. It has its name only when all of it is on disk.
func (f *File) stage(r *relic, say Manifest) (got Capture, err error) {
	others, err := Captures(f.path)
	if err != nil {
		return got, err
	}
	whole, err := f.makeRoom(r, others)
	if err != nil {
		return got, err
	}
	dir, err := f.captureDir()
	if err != nil {
		return got, err
	}
	staged := dir + partialSuffix
	defer func() {
		if err != nil || got.Dir != dir {
			os.RemoveAll(staged)
		}
	}()
	m, err := f.copyInto(staged, r, whole)
	if err != nil {
		return got, err
	}
	for _, old := range others {
		if old.same(m) && !old.outlived(m) {
			return old, nil
		}
	}
	m.Trigger, m.Note, m.Unfinished = say.Trigger, say.Note, say.Unfinished
	if err := writeManifest(staged, m); err != nil {
		return got, err
	}
	if err := f.opts.seams.captured(staged); err != nil {
		return got, err
	}
	if err := os.Rename(staged, dir); err != nil {
		return got, err
	}
	return Capture{dir, m}, syncDir(filepath.Dir(dir))
}

// makeRoom is roomFor after those captures went whose rows are all in the database, the oldest first and no more than
// it takes. Were they counted, the fourth loss in the life of a database would be the first that nobody can play back.
func (f *File) makeRoom(r *relic, others []Capture) (whole bool, err error) {
	for _, old := range slices.Backward(others) {
		if whole, err = f.roomFor(r, others); whole || sizeOf(r.main) > captureMainMax {
			return whole, err
		}
		if !old.Salvaged() {
			continue
		}
		if err := old.remove(); err != nil {
			f.log.Warn("salvaged capture could not be removed", "path", old.Dir, "error", err)
			continue
		}
		f.log.Info("salvaged capture removed to make room for a new one", "path", old.Dir)
		others = slices.DeleteFunc(slices.Clone(others), func(c Capture) bool { return c.Dir == old.Dir })
	}
	return f.roomFor(r, others)
}

// roomFor decides whether the database is copied whole, and refuses where not even the -wal fits.
func (f *File) roomFor(r *relic, others []Capture) (whole bool, err error) {
	free, err := f.opts.seams.free(f.dir())
	if err != nil {
		return false, fmt.Errorf("ask for free space: %w", err)
	}
	small := sizeOf(r.wal) + sizeOf(r.shm) + headerSize
	if free < small+captureHeadroom {
		return false, classify(NoSpace, "%d bytes are free, %d are needed with those that are kept free", free, small+captureHeadroom)
	}
	large := small + sizeOf(r.main)
	kept := int64(0)
	for _, c := range others {
		kept += c.Bytes()
	}
	return sizeOf(r.main) <= captureMainMax && len(others) < captureCount && kept+large <= captureBytesMax &&
		free >= large+captureHeadroom, nil
}

// sizeOf asks a file of a lost generation, which nobody will sync any more.
func sizeOf(file *os.File) int64 {
	if file == nil {
		return 0
	}
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func bytesAt(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// captureDir makes the directory in which a capture is staged and gives the name that it will have.
func (f *File) captureDir() (string, error) {
	name := f.path + captureWord + time.Now().UTC().Format("20060102-150405") + fmt.Sprintf("-%d", os.Getpid())
	for n := 1; ; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		if _, err := os.Lstat(dir); err == nil {
			continue
		}
		err := os.Mkdir(dir+partialSuffix, 0o700)
		if !errors.Is(err, os.ErrExist) {
			return dir, err
		}
	}
}

// copyInto copies the files, the database first: a checkpoint of another process in between moves pages that the
// copy of the -wal has too.
func (f *File) copyInto(dir string, r *relic, whole bool) (m Manifest, err error) {
	why, _ := f.why()
	m = Manifest{
		Version: manifestVersion, Database: f.path, Reason: why, PID: os.Getpid(), CapturedAt: time.Now().UTC(),
		Runtime: runtime.Version(), SQLite: f.library,
		OnDisk: OnDisk{nodeAt(f.path).String(), nodeAt(f.walPath).String(), nodeAt(f.shmPath).String(), bytesAt(f.walPath)},
	}
	if r.wal != nil {
		m.MainWrittenAt, _ = changes(r.main)
		_, m.LostAt = changes(r.wal)
	}
	base := filepath.Base(f.path)
	head, _ := readHeader(r.main)
	m.Main = MainImage{Size: sizeOf(r.main), Mode: MainCopied, Header: parseHeader(head)}
	from, name := io.Reader(r.main), base
	if !whole {
		m.Main.Mode, from, name = MainHeaderOnly, io.LimitReader(r.main, headerSize), base+".header"
	}
	if m.Main.Image, err = copyImage(dir, name, from, f.ident.main); err != nil {
		return m, err
	}
	for _, side := range []struct {
		file *os.File
		name string
		node inode
		into **Image
	}{{r.wal, base + "-wal", f.ident.wal, &m.WAL}, {r.shm, base + "-shm", f.ident.shm, &m.SHM}} {
		if side.file == nil {
			continue
		}
		image, err := copyImage(dir, side.name, side.file, side.node)
		if err != nil {
			return m, err
		}
		*side.into = &image
	}
	return m, nil
}

// copyImage copies and digests in one pass, and syncs.
func copyImage(dir, name string, from io.Reader, node inode) (Image, error) {
	dst, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Image{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, sum), from)
	if err == nil {
		err = dst.Sync()
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return Image{}, fmt.Errorf("copy %s: %w", name, err)
	}
	return Image{Identity: node.String(), File: name, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

func writeManifest(dir string, m Manifest) error {
	return errors.Join(writeSynced(filepath.Join(dir, manifestName), m), syncDir(dir))
}
