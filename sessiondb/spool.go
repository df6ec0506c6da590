package sessiondb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// DefaultSpoolBytes bounds a spool. A store that is down for hours takes a few turns, each within its room; what fills
// this is a program that does not hear that nothing is stored.
const DefaultSpoolBytes = 256 << 20

// The files of a spool. Writers add to the first one; a replay gives it a number, so that writers begin another, and
// removes it when everything in it is stored or kept.
const (
	spoolOpen   = "rows.jsonl"
	spoolSealed = "sealed-"    // and eight digits: in the order they were sealed
	spoolKept   = "kept.jsonl" // what could not be replayed, each line with its reason
	spoolLock   = "lock"       // held for one append, and while a file is sealed
	replayLock  = "replay.lock"
)

// Spool is the directory beside a database that takes the rows while the database cannot: state.db.spool. It is made by
// the first row that needs it. Every line is synced before anybody is told of it. It is safe for concurrent use, by
// several processes too.
type Spool struct {
	dir   string
	limit int64
	flush func(*os.File) error // a seam: where a disk fails

	mu    sync.Mutex // guards what State counted last
	files string     // of which files
	state SpoolState
}

// SpoolOf is the spool beside the database at path (resolved). Nothing is opened.
func SpoolOf(path string) *Spool {
	return &Spool{dir: path + ".spool", limit: DefaultSpoolBytes, flush: (*os.File).Sync}
}

// Dir is where the spool lies.
func (sp *Spool) Dir() string { return sp.dir }

func (sp *Spool) file(name string) string { return filepath.Join(sp.dir, name) }

// waiting says whether rows came since the last replay. It costs one look at a name.
func (sp *Spool) waiting() bool {
	_, err := os.Lstat(sp.file(spoolOpen))
	return err == nil
}

// put adds one record and returns when it would survive a power cut.
func (sp *Spool) put(ctx context.Context, r *spooled) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if err := sp.make(); err != nil {
		return err
	}
	unlock, err := sp.lock(ctx, spoolLock)
	if err != nil {
		return err
	}
	defer unlock()
	if err := sp.room(int64(len(line))); err != nil {
		return err
	}
	return sp.write(sp.file(spoolOpen), line)
}

// Append keeps rows for a store that is not even open: its generation was lost and the next one cannot be opened yet. The
// error is ErrSpooled, as from Store.Append, or says that they are kept nowhere.
func (sp *Spool) Append(ctx context.Context, l Lease, rows []NewMessage, cause error) error {
	batch, err := prepareRows(rows, func(int64) {})
	if err != nil {
		return err
	}
	return sp.keep(ctx, l, &spooled{Session: spooledSession{ID: l.Session}, Rows: spoolRows(batch)}, cause)
}

// Release keeps the end of a lease for a store that is not open.
func (sp *Spool) Release(ctx context.Context, l Lease, cause error) error {
	return sp.keep(ctx, l, &spooled{Session: spooledSession{ID: l.Session}, Release: true}, cause)
}

// keep puts a record and gives the error that says so; a release that is kept is no error.
func (sp *Spool) keep(ctx context.Context, l Lease, r *spooled, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spoolPatience)
	defer cancel()
	r.At, r.PID, r.Cause, r.Token = time.Now().UTC(), os.Getpid(), sentenceOf(cause), l.Token
	err := sp.put(ctx, r)
	switch {
	case err != nil:
		return errNotSpooled(l.Session, cause, err)
	case r.Release || mutation.On("spool-acknowledges"):
		return nil
	}
	return errSpooled(l.Session, sp, cause)
}

func (sp *Spool) make() error {
	err := os.Mkdir(sp.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make spool: %w", err)
	}
	return syncDir(filepath.Dir(sp.dir))
}

// room refuses a line that would take the spool beyond its bound.
func (sp *Spool) room(more int64) error {
	files, err := sp.list()
	if err != nil {
		return err
	}
	used := int64(0)
	for _, f := range files {
		used += f.bytes
	}
	if used+more <= sp.limit {
		return nil
	}
	return &problem.Error{
		Kind: problem.Full, Thing: "spool " + sp.dir, What: fmt.Sprintf("holds %d bytes, its bound is %d", used, sp.limit),
		Fate: "the new rows were not kept", Remedy: "mend the database (`gatewayd doctor` says how); then the spool empties by itself",
	}
}

// write adds a line to a file, after what an earlier process may have left torn was cut off. On an error the file is as
// it was.
func (sp *Spool) write(path string, line []byte) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	defer file.Close()
	end, err := wholeLines(file)
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write spool: %w", err), file.Truncate(end))
		}
	}()
	if err := file.Truncate(end); err != nil {
		return err
	}
	if _, err := file.WriteAt(line, end); err != nil {
		return err
	}
	if mutation.On("spool-unsynced") {
		return nil
	}
	if err := sp.flush(file); err != nil {
		return err
	}
	if end == 0 {
		return syncDir(sp.dir)
	}
	return nil
}

// wholeLines gives the length of a file up to its last newline.
func wholeLines(file *os.File) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	buf := make([]byte, 64<<10)
	for err == nil && end > 0 {
		from := max(end-int64(len(buf)), 0)
		part := buf[:end-from]
		if _, err = file.ReadAt(part, from); err != nil {
			break
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return from + int64(at) + 1, nil
		}
		end = from
	}
	return end, err
}

// spoolFile is one file of the spool.
type spoolFile struct {
	name  string
	bytes int64
	at    time.Time
}

// list gives those with rows, kept ones first, then sealed ones in their order, then the open one. A spool that is not
// there has none.
func (sp *Spool) list() ([]spoolFile, error) {
	entries, err := os.ReadDir(sp.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []spoolFile
	for _, e := range entries {
		if e.Name() != spoolOpen && e.Name() != spoolKept && !strings.HasPrefix(e.Name(), spoolSealed) {
			continue
		}
		if info, err := e.Info(); err == nil { // else a replay has just removed it
			out = append(out, spoolFile{e.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(out, func(a, b spoolFile) int { return cmp.Compare(spoolRank(a.name), spoolRank(b.name)) })
	return out, err
}

func spoolRank(name string) string {
	switch name {
	case spoolKept:
		return "0"
	case spoolOpen:
		return "2"
	}
	return "1" + name
}

// seal gives a file its number, so that nobody adds to it any more, and reports whether it was there.
func (sp *Spool) seal(ctx context.Context, name string) (bool, error) {
	unlock, err := sp.lock(ctx, spoolLock)
	if err != nil {
		return false, err
	}
	defer unlock()
	files, err := sp.list()
	if err != nil {
		return false, err
	}
	number := 0
	for _, f := range files {
		var n int
		if _, err := fmt.Sscanf(f.name, spoolSealed+"%08d", &n); err == nil {
			number = max(number, n)
		}
	}
	err = os.Rename(sp.file(name), sp.file(fmt.Sprintf("%s%08d.jsonl", spoolSealed, number+1)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, errors.Join(err, syncDir(sp.dir))
}

// remove takes away a file whose rows are all stored or kept.
func (sp *Spool) remove(name string) error {
	if err := os.Remove(sp.file(name)); err != nil {
		return fmt.Errorf("remove replayed spool: %w", err)
	}
	return syncDir(sp.dir)
}

// lockPoll is how often a lock that another process holds is asked for again.
const lockPoll = 20 * time.Millisecond

// lock takes one of the spool's locks; the kernel frees it when the process dies.
func (sp *Spool) lock(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(sp.file(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock spool: %w", err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock spool: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("lock spool: %w", context.Cause(ctx))
		}
	}
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer dir.Close()
	return dir.Sync()
}
