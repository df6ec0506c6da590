package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// RestoreOptions say which backup goes where.
type RestoreOptions struct {
	Backup string            // the directory of a backup
	Path   string            // the database that it replaces; nothing there is fine
	Label  string            // for people
	Beside map[string]string // file of the backup → where it goes, if nothing is there
	Files  string            // directory of the files that its rows name; those that are there stay
	Newest int64             // greatest schema number that this program knows; 0 asks no number
	DryRun bool              // look and say, and change nothing
}

// RestoreReport says what a restore did, or would do.
type RestoreReport struct {
	Path    string           `json:"path"`
	Backup  Backup           `json:"backup"`
	DryRun  bool             `json:"dry_run"`
	Now     map[string]int64 `json:"now"`               // rows before, by table
	Then    map[string]int64 `json:"then"`              // rows of the backup
	Lost    map[string]int64 `json:"lost"`              // rows that there are more of now
	Trouble string           `json:"trouble,omitempty"` // why the rows of now could not be counted
	Held    string           `json:"held,omitempty"`    // in a dry run: why it could not be done at this moment
	Aside   string           `json:"aside,omitempty"`   // directory that the replaced file was moved to
}

// Restore puts a backup in a database's place. It refuses while any process has the file open, never deletes the file
// that it replaces, and verifies the copy before it takes the name. Killed at any moment it leaves the old database
// or the new one, and run again it ends well.
func Restore(ctx context.Context, o RestoreOptions) (RestoreReport, error) {
	f, err := newFile(Options{Path: o.Path, Label: o.Label})
	if err != nil {
		return RestoreReport{}, err
	}
	r := RestoreReport{Path: f.path, DryRun: o.DryRun}
	if r.Backup, err = ReadBackup(o.Backup); err != nil {
		return r, err
	}
	if err := o.admit(r.Backup); err != nil {
		return r, err
	}
	if err := r.Backup.Check(); err != nil {
		return r, err
	}
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		return r, f.explain(err, "it was left as it is")
	}
	if o.DryRun {
		return r, f.restoreDry(ctx, &r)
	}
	lock, err := takeLock(ctx, repairLockPath(f.path), maintenanceLockWait)
	if err != nil {
		return r, f.explain(err, "it was left as it is")
	}
	defer lock.Close()
	return r, f.restore(ctx, o, &r)
}

// admit refuses a copy that this program could only read: the file that it would replace may well be one that it can write.
func (o RestoreOptions) admit(b Backup) error {
	if o.Newest == 0 || b.Manifest.UserVersion <= o.Newest || mutation.On("restore-takes-any-schema") {
		return nil
	}
	return &problem.Error{
		Kind: problem.Config, Thing: "backup " + b.Dir, What: fmt.Sprintf("has schema version %d, this gatewayd knows up to %d", b.Manifest.UserVersion, o.Newest),
		Fate: "nothing was changed", Remedy: "restore it with the gatewayd that made it, or choose an older one: `gatewayd backup list`",
	}
}

// restoreDry looks through a reader like any other's.
func (f *File) restoreDry(ctx context.Context, r *RestoreReport) error {
	if err := f.refuseHolders(OpRestore, 0); err != nil {
		r.Held = whatOf(err)
	}
	seen, c, err := source(ctx, f.path, f.opts.Label)
	if err == nil {
		r.compare(c)
		seen.drop(c)
	} else {
		r.noCount(err)
	}
	return nil
}

func whatOf(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.What
	}
	if advice, ok := advices[ClassOf(err)]; ok {
		return advice.what
	}
	return "says: " + err.Error()
}

// compare counts what is there now against the backup.
func (r *RestoreReport) compare(c *Conn) {
	r.Then = r.Backup.Manifest.Counts
	err := guard(func() (err error) {
		r.Now, err = c.count(slices.Collect(tablesOf(r.Backup.Manifest)))
		return err
	})
	if err != nil {
		r.noCount(err)
		return
	}
	r.Lost = map[string]int64{}
	for name, n := range r.Now {
		if more := n - r.Then[name]; more > 0 {
			r.Lost[name] = more
		}
	}
}

func (r *RestoreReport) noCount(err error) {
	r.Then = r.Backup.Manifest.Counts
	if !errors.Is(err, fs.ErrNotExist) {
		r.Trouble = whatOf(err)
	}
}

// restore stages the copy, has the old file to itself, and changes the two over. A database that can be read is first
// emptied of its -wal, so that one rename is the whole change. One that cannot be read has no such moment: its parts
// are all linked aside before the first of them goes.
func (f *File) restore(ctx context.Context, o RestoreOptions, r *RestoreReport) error {
	stage := f.path + ".restoring"
	if err := f.stageRestore(stage, r.Backup); err != nil {
		return f.explain(err, "it was left as it is")
	}
	defer os.Remove(stage)
	release, err := f.haveAlone(ctx, r)
	if err != nil {
		return err
	}
	defer release()
	if err := f.changeOver(stage, r); err != nil {
		return f.explain(err, fmt.Sprintf("the parts of the old file are in %s; run it again", r.Aside))
	}
	if err := r.Backup.restoreFiles(o.Files); err != nil {
		return err
	}
	for name, to := range o.Beside {
		if err := restoreBeside(filepath.Join(r.Backup.Dir, filepath.Base(name)), to); err != nil {
			return fmt.Errorf("restore %s: the database is restored: %w", name, err)
		}
	}
	return nil
}

// stageRestore puts a verified, synced copy beside the database.
func (f *File) stageRestore(stage string, b Backup) error {
	if err := os.Remove(stage); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := copyFile(b.File(), stage); err != nil {
		return fmt.Errorf("stage backup: %w", err)
	}
	if info, err := os.Stat(f.path); err == nil {
		if err := os.Chmod(stage, info.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := syncFile(stage); err != nil {
		return err
	}
	if n, sum, err := digest(stage); err != nil || n != b.Manifest.Bytes || sum != b.Manifest.SHA256 {
		return errors.Join(fmt.Errorf("stage backup: the copy is not what was read"), err)
	}
	return nil
}

// haveAlone makes sure that nobody has the file, and keeps others out as far as it is a database at all.
func (f *File) haveAlone(ctx context.Context, r *RestoreReport) (release func(), err error) {
	if _, err := os.Lstat(f.path); err != nil {
		return func() {}, f.refuseHolders(OpRestore, 0)
	}
	c, err := f.sole(ctx, OpRestore)
	if class := ClassOf(err); class == NotADatabase || class == Corrupt {
		r.noCount(err)
		return func() {}, f.refuseHolders(OpRestore, 0)
	}
	if err != nil {
		return nil, err
	}
	r.compare(c)
	if err := guard(func() error { return c.settleAlone(f) }); err != nil {
		f.log.Warn("the -wal could not be emptied before a restore", "path", f.path, "error", err)
	}
	return func() { f.drop(c) }, nil
}

// sidecars come before the database: while the database still has its old name nothing of the old can be read into
// the new one.
var sidecars = []string{"-journal", "-wal", "-shm"}

func (f *File) changeOver(stage string, r *RestoreReport) (err error) {
	if r.Aside, err = f.linkAside(); err != nil {
		return fmt.Errorf("keep the old file: %w", err)
	}
	for _, side := range sidecars {
		if side != "-shm" && !hasBytes(f.path+side) {
			continue // it holds nothing; one that is gone could not be missed
		}
		if err := os.Remove(f.path + side); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(syncDir(f.dir()), os.Rename(stage, f.path)); err != nil {
		return err
	}
	for _, side := range sidecars {
		if err := os.Remove(f.path + side); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(f.dir())
}

// linkAside gives every part of the old database a second name in a directory of its own, without copying a byte.
func (f *File) linkAside() (string, error) {
	var parts []string
	for _, side := range append([]string{""}, sidecars...) {
		if _, err := os.Lstat(f.path + side); err == nil {
			parts = append(parts, f.path+side)
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	dir, err := os.MkdirTemp(f.dir(), filepath.Base(f.path)+".replaced-"+time.Now().UTC().Format(backupStamp)+"-")
	if err != nil {
		return "", err
	}
	for _, part := range parts {
		if err := os.Link(part, filepath.Join(dir, filepath.Base(part))); err != nil {
			return dir, err
		}
	}
	return dir, errors.Join(syncDir(dir), syncDir(f.dir()))
}

// restoreBeside writes a small file where nothing is. It gets its name when it is whole: a kill leaves no half of it, which
// the next restore would take for what is to stay.
func restoreBeside(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	partial := to + partialMark
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a restore that was killed
		return err
	}
	err := copyFile(from, partial)
	if err == nil {
		err = syncFile(partial)
	}
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err != nil {
		_ = os.Remove(partial)
		return err
	}
	return syncDir(filepath.Dir(to))
}
