package sqlite

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Copies are the backups that lay in a directory when it was listed. The zero value has none.
type Copies struct {
	dir   string   // as it was named
	names []string // of its directories, which need not be backups
	read  func(dir string) (Backup, error)
	all   func() []Backup // of them all, newest first; read at the first call
}

// CopiesIn lists a directory of backups and reads no manifest: there may be hundreds. One that is "" or not there, or
// cannot be read, holds none: it may be on another disk that is not there today. The error says why.
func CopiesIn(dir string) (Copies, error) {
	if dir == "" {
		return Copies{}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Copies{}, fmt.Errorf("list backups: %w", err)
	}
	c := Copies{dir: dir, read: ReadBackup}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			c.names = append(c.names, e.Name())
		}
	}
	c.all = sync.OnceValue(c.readAll)
	return c, nil
}

func (c *Copies) readAll() (found []Backup) {
	for _, name := range c.names {
		if b, err := c.read(filepath.Join(c.dir, name)); err == nil {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b Backup) int {
		return cmp.Or(b.Manifest.MadeAt.Compare(a.Manifest.MadeAt), strings.Compare(b.Dir, a.Dir))
	})
	return found
}

// Backups lists the backups in a directory, newest first. What has no manifest of ours is no backup.
func Backups(dir string) ([]Backup, error) {
	c, err := CopiesIn(dir)
	if c.all == nil {
		return nil, err
	}
	return c.all(), err
}

// Of gives the newest backup of the database at path, an upgrade's among them: all that says that it once was there.
//
// Several homes may keep their backups in one directory, so the manifest must name this very path, unless the backups
// lie in the home of the database and moved with it. The names tell which is newest; a directory that a person named
// is looked at where no other is found.
func (c Copies) Of(path, label string) (Backup, bool) {
	return c.newest(path, label, func(BackupManifest) bool { return true })
}

// Scheduled is Of without the copies that upgrades kept: these come when they come, and are not of a round.
func (c Copies) Scheduled(path, label string) (Backup, bool) {
	return c.newest(path, label, func(m BackupManifest) bool { return !m.Upgrade })
}

func (c Copies) newest(path, label string, fits func(BackupManifest) bool) (Backup, bool) {
	if c.all == nil {
		return Backup{}, false
	}
	is := c.isOf(path, label)
	for _, name := range c.named(cmp.Or(label, filepath.Base(path))) {
		if b, err := c.read(filepath.Join(c.dir, name)); err == nil && is(b.Manifest) && fits(b.Manifest) {
			return b, true
		}
	}
	all := c.all()
	i := slices.IndexFunc(all, func(b Backup) bool { return is(b.Manifest) && fits(b.Manifest) })
	if i < 0 {
		return Backup{}, false
	}
	return all[i], true
}

// isOf is the rule which backups are of a database.
func (c Copies) isOf(path, label string) func(BackupManifest) bool {
	if full, err := resolve(path); err == nil {
		path = full
	}
	dir := c.dir
	if full, err := resolve(dir); err == nil {
		dir = full
	}
	inHome, err := filepath.Rel(filepath.Dir(dir), path)
	beside := err == nil && filepath.IsLocal(inHome) && !mutation.On("moved-backups-are-unknown")
	return func(m BackupManifest) bool {
		return m.Path == path || beside && m.Database == label && strings.HasSuffix(m.Path, string(filepath.Separator)+inHome)
	}
}

// named gives the directories that have the name of a database's backup, newest first.
func (c Copies) named(label string) []string {
	type dated struct {
		name, stamp string
		nth         int // of this second
	}
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(backupPrefix(label)) + `(?:-schema-\d+|-before-upgrade)?-(\d{8}-\d{6})(?:-(\d+))?$`)
	var found []dated
	for _, name := range c.names {
		if m := pattern.FindStringSubmatch(name); m != nil {
			nth, _ := strconv.Atoi(m[2])
			found = append(found, dated{name, m[1], nth})
		}
	}
	slices.SortFunc(found, func(a, b dated) int { return cmp.Or(strings.Compare(b.stamp, a.stamp), b.nth-a.nth) })
	names := make([]string, 0, len(found))
	for _, d := range found {
		names = append(names, d.name)
	}
	return names
}

// backupPrefix is how the names of a database's backups begin.
func backupPrefix(label string) string { return strings.ReplaceAll(label, " ", "-") }

// ReadBackup reads the manifest of one.
func ReadBackup(dir string) (Backup, error) {
	b := Backup{Dir: dir}
	file, err := os.Open(filepath.Join(dir, backupManifest))
	if err != nil {
		return b, notABackup(dir, err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, backupManifestMax))
	if err == nil {
		err = json.Unmarshal(raw, &b.Manifest)
	}
	if m := b.Manifest; err == nil && (m.Format != backupFormat || m.File == "" || m.File != filepath.Base(m.File)) {
		err = errors.New("its manifest is of another program")
	}
	if err != nil {
		return b, notABackup(dir, err)
	}
	if b.Manifest.Version > backupVersion {
		return b, notABackup(dir, fmt.Errorf("its format %d is newer than this gatewayd", b.Manifest.Version))
	}
	return b, nil
}

func notABackup(dir string, err error) error {
	kind := problem.Invalid
	if errors.Is(err, fs.ErrNotExist) {
		kind = problem.NotFound
	}
	return &problem.Error{Kind: kind, Thing: dir, What: "is not a backup of gatewayd", Fate: "it was left as it is", Remedy: "name the directory that holds a manifest.json", Err: err}
}
