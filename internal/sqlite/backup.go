package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// BackupOptions say where backups of one database are kept and what belongs to it.
type BackupOptions struct {
	Dir    string   // made where it is missing; several databases may share it
	Keep   int      // backups of this database that stay; 0 is DefaultKeep
	Tables []string // whose rows are counted, in the database and in the copy
	Beside []string // small files that belong to it and are copied along where they exist: board.json
	Files  string   // directory of files that its rows name; "" or one that is not there is none

	upgrade bool // before the schema is brought up to date; such copies are counted by themselves
}

// DefaultKeep is a week of one a day.
const DefaultKeep = 7

// Backup is one copy with its manifest, in a directory of its own that got its name when all of it was verified.
type Backup struct {
	Dir      string         `json:"dir"`
	Manifest BackupManifest `json:"manifest"`
}

// File is the copied database.
func (b Backup) File() string { return filepath.Join(b.Dir, b.Manifest.File) }

// BackupManifest says what a backup holds, in manifest.json beside it.
type BackupManifest struct {
	Format   string           `json:"format"` // backupFormat
	Version  int              `json:"version"`
	Database string           `json:"database"` // "state.db", "board default"
	Path     string           `json:"path"`     // where it lay
	File     string           `json:"file"`     // its name here
	Bytes    int64            `json:"bytes"`
	SHA256   string           `json:"sha256"`
	Counts   map[string]int64 `json:"counts"` // rows by table
	Beside   []string         `json:"beside,omitempty"`
	Files    []BackedFile     `json:"files,omitempty"`
	Journal  string           `json:"journal"`

	ApplicationID int64     `json:"application_id"`
	UserVersion   int64     `json:"user_version"`
	Index         []string  `json:"index,omitempty"` // damage to search indexes, which costs no row
	MadeAt        time.Time `json:"made_at"`
	TookMS        int64     `json:"took_ms"`
	Upgrade       bool      `json:"upgrade,omitempty"` // made before the schema was brought up to date
}

const (
	backupFormat      = "gatewayd backup"
	backupVersion     = 1
	backupManifest    = "manifest.json"
	backupManifestMax = 1 << 20
	besideMax         = 16 << 20 // what is larger is no small file
	backupStamp       = "20060102-150405"
	backupPlacings    = 1000 // backups of one second
)

// Backup makes one verified backup beside whoever writes, and removes the oldest beyond Keep. It refuses in
// quarantine, and a copy that is not whole never gets a name.
func (f *File) Backup(ctx context.Context, o BackupOptions) (Backup, error) {
	if err := f.admit(OpBackup); err != nil {
		return Backup{}, err
	}
	c, err := f.connect(roleReader)
	if err != nil {
		return Backup{}, f.explain(err, "no backup was made")
	}
	defer f.drop(c)
	return f.backup(ctx, c, o)
}

// BackupFile is Backup for a database of which this process has no handle; other processes may.
func BackupFile(ctx context.Context, path, label string, o BackupOptions) (Backup, error) {
	f, c, err := source(ctx, path, label)
	if err != nil {
		return Backup{}, err
	}
	defer f.drop(c)
	return f.backup(ctx, c, o)
}

func (f *File) backup(ctx context.Context, c *Conn, o BackupOptions) (Backup, error) {
	err := os.MkdirAll(o.Dir, 0o700)
	if err == nil {
		err = f.roomForCopy(o.Dir)
	}
	if err != nil {
		return Backup{}, f.noBackup(o.Dir, err)
	}
	stage, unlock, err := makeStage(o.Dir)
	if err != nil {
		return Backup{}, f.noBackup(o.Dir, err)
	}
	defer unlock()
	defer os.RemoveAll(stage)
	m, err := f.stageBackup(ctx, c, o, stage)
	if err != nil {
		return Backup{}, f.noBackup(o.Dir, err)
	}
	dir, err := placeBackup(stage, filepath.Join(o.Dir, backupName(m)))
	if err != nil {
		return Backup{}, f.noBackup(o.Dir, err)
	}
	b := Backup{Dir: dir, Manifest: m}
	return b, pruneBackups(o.Dir, b, cmp.Or(o.Keep, DefaultKeep))
}

// noBackup says in full that there is none.
func (f *File) noBackup(dir string, err error) error {
	const fate = "no backup was made"
	if ClassOf(err) == Corrupt || ClassOf(err) == NotADatabase {
		return &problem.Error{
			Kind: problem.Damaged, Thing: f.thing(), What: "is damaged and is not backed up", Fate: fate + "; the file and older backups were left as they are",
			Remedy: RepairRemedy(f.opts.Label), Err: err,
		}
	}
	if _, said := errors.AsType[*problem.Error](err); said {
		return err
	}
	if told := f.targetProblem(dir, err); told != nil {
		return told
	}
	if told := f.explain(err, fate); told != err {
		return told
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &problem.Error{Kind: problem.Unavailable, Thing: f.thing(), What: "cannot be backed up", Fate: fate, Remedy: "check the backup directory", Err: err}
}

const stageMark = ".making-"

// makeStage makes a directory for a backup that is being made, locked for as long, and clears away those that a killed
// process left: their locks went with it.
func makeStage(dir string) (stage string, unlock func() error, err error) {
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), stageMark) {
			continue
		}
		if lock, err := tryFlock(filepath.Join(dir, e.Name())); err == nil {
			os.RemoveAll(filepath.Join(dir, e.Name()))
			lock.Close()
		}
	}
	if stage, err = os.MkdirTemp(dir, stageMark); err != nil {
		return "", nil, err
	}
	lock, err := tryFlock(stage)
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(stage))
	}
	return stage, lock.Close, nil
}

// stageBackup makes everything of a backup in a directory without a name, and syncs it.
func (f *File) stageBackup(ctx context.Context, c *Conn, o BackupOptions, stage string) (BackupManifest, error) {
	begun := time.Now()
	m := BackupManifest{
		Format: backupFormat, Version: backupVersion, Database: cmp.Or(f.opts.Label, filepath.Base(f.path)), Path: f.path,
		File: filepath.Base(f.path), Journal: f.journal.Mode, MadeAt: begun.UTC(), Upgrade: o.upgrade,
	}
	file := filepath.Join(stage, m.File)
	found, err := f.verifiedCopyBy(ctx, c, file, o.Tables)
	if err != nil && !mutation.On("backup-named-before-verified") {
		return m, err
	}
	m.Counts, m.Index, m.ApplicationID, m.UserVersion = found.counts, found.index, found.application, found.version
	if m.Bytes, m.SHA256, err = digest(file); err != nil {
		return m, err
	}
	if m.Beside, err = copyBeside(o.Beside, stage); err != nil {
		return m, err
	}
	if m.Files, err = copyTree(o.Files, stage); err != nil {
		return m, err
	}
	m.TookMS = time.Since(begun).Milliseconds()
	return m, writeSynced(filepath.Join(stage, backupManifest), m)
}

func copyBeside(files []string, stage string) ([]string, error) {
	var names []string
	for _, path := range files {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.Mode().IsRegular() || info.Size() > besideMax {
			return nil, fmt.Errorf("copy %s: not a small file: %w", path, err)
		}
		to := filepath.Join(stage, filepath.Base(path))
		if err := errors.Join(copyFile(path, to), syncFile(to)); err != nil {
			return nil, fmt.Errorf("copy %s: %w", path, err)
		}
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

func backupName(m BackupManifest) string {
	name := backupPrefix(m.Database)
	switch {
	case m.Upgrade && m.UserVersion > 0:
		name += fmt.Sprintf("-schema-%d", m.UserVersion)
	case m.Upgrade: // the format of boards has no number
		name += "-before-upgrade"
	}
	return name + "-" + m.MadeAt.Format(backupStamp)
}

// placeBackup gives the stage its name, the next free one of this second, and makes the name durable.
func placeBackup(stage, want string) (string, error) {
	if err := syncDir(stage); err != nil {
		return "", err
	}
	for n := 1; n < backupPlacings; n++ {
		dir := want
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", want, n)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := os.Rename(stage, dir) // a directory never replaces one that holds something
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return dir, errors.Join(err, syncDir(filepath.Dir(dir)))
	}
	return "", fmt.Errorf("name backup: %s and all that follow are taken", want)
}

// Check compares a backup with its manifest: length, digest, integrity and rows.
func (b Backup) Check() error {
	n, sum, err := digest(b.File())
	if err == nil && (n != b.Manifest.Bytes || sum != b.Manifest.SHA256) {
		err = classify(Corrupt, "%s is not what was written: %d bytes, sha256 %.16s", b.Manifest.File, n, sum)
	}
	var found checked
	if err == nil {
		found, err = checkSealed(b.File(), slices.Collect(tablesOf(b.Manifest)))
	}
	for name, want := range b.Manifest.Counts {
		if err == nil && found.counts[name] != want {
			err = classify(Corrupt, "%d rows of %s where the manifest says %d", found.counts[name], name, want)
		}
	}
	if err == nil {
		err = b.checkFiles()
	}
	if err == nil {
		return nil
	}
	return &problem.Error{Kind: problem.Damaged, Thing: "backup " + b.Dir, What: "is damaged", Fate: "it was left as it is", Remedy: "take another one", Err: err}
}

func tablesOf(m BackupManifest) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m.Counts {
			if !yield(name) {
				return
			}
		}
	}
}

// pruneBackups removes the oldest of the same database. The one just made is never among them, nor is a directory
// that holds anything but what a backup is made of.
func pruneBackups(dir string, made Backup, keep int) error {
	all, err := Backups(dir)
	if err != nil {
		return err
	}
	kept := 0
	for _, b := range all {
		if b.Manifest.Database != made.Manifest.Database || b.Manifest.Path != made.Manifest.Path || b.Manifest.Upgrade != made.Manifest.Upgrade {
			continue
		}
		if kept++; kept <= max(keep, 1) || b.Dir == made.Dir {
			continue
		}
		if err := b.remove(); err != nil {
			return fmt.Errorf("remove old backup: %w", err)
		}
	}
	return nil
}

// remove takes away what the manifest names and the manifest last: what is left of a removal that was cut short is
// still a backup of ours and removed the next time.
func (b Backup) remove() error {
	if err := b.removeFiles(); err != nil {
		return err
	}
	for _, name := range append([]string{b.Manifest.File}, append(slices.Clone(b.Manifest.Beside), backupManifest)...) {
		if err := os.Remove(filepath.Join(b.Dir, filepath.Base(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := os.Remove(b.Dir)
	if errors.Is(err, fs.ErrExist) { // something of a person's lies in it
		return nil
	}
	return err
}

// digest reads a file and gives its length in bytes and its sha256 in hex.
func digest(path string) (int64, string, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, file)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// writeSynced writes a value as JSON into a new file and syncs it.
func writeSynced(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return syncFile(path)
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
