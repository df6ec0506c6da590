package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatewayd/internal/problem"
)

// place is what lies where a database belongs.
type place int

const (
	placeVacant  place = iota // nothing
	placeEmpty                // a file without a byte, and nothing beside it that says it once had some
	placeContent              // something
)

// survey refuses what can neither be a database nor become one.
//
// The -wal is looked for first: SQLite writes the first page of a new database before it creates the -wal, so a
// -wal seen before an empty main file is a loss, not a race with another opener.
func (f *File) survey() (place, error) {
	_, walErr := os.Lstat(f.walPath)
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placeVacant, f.surveyVacant(walErr == nil)
	case err != nil:
		return 0, f.refuse(ReadOnly, problem.Denied, "cannot be looked at", "check the permissions of its directory", err)
	case info.IsDir():
		return 0, f.refuse(NotADatabase, problem.Damaged, "is a directory, not a database", "move it away", nil)
	case !info.Mode().IsRegular():
		return 0, f.refuse(NotADatabase, problem.Damaged, "is not a regular file ("+info.Mode().Type().String()+")", "move it away", nil)
	case info.Size() == 0:
		return placeEmpty, f.surveyEmpty(walErr == nil)
	}
	return placeContent, nil
}

func (f *File) surveyVacant(walThere bool) error {
	if to, err := os.Readlink(f.path); err == nil {
		return f.refuse(Missing, problem.NotFound, "is a symbolic link to "+to+", which does not exist",
			"put the file back where it points, or remove the link", fs.ErrNotExist)
	}
	if walThere {
		return f.refuse(Corrupt, problem.Damaged, "is gone, but its -wal is still there and may hold rows",
			"put the database back beside it, or move the -wal away too", nil)
	}
	return nil
}

// surveyEmpty: zero length counts as new only when nothing beside it says that it once held something.
func (f *File) surveyEmpty(walThere bool) error {
	if walThere {
		return f.refuse(Corrupt, problem.Damaged, "is empty, but its -wal is still there and may hold rows",
			"put a backup back, or move both files away", nil)
	}
	beside, err := f.traces()
	if err != nil {
		return f.refuse(IO, problem.Unavailable, "has a directory that cannot be listed", "check its permissions", err)
	}
	if len(beside) > 0 {
		return f.refuse(Corrupt, problem.Damaged, "is empty, but "+beside[0]+" beside it says that it once was not",
			"put a backup back, or move the empty file away", nil)
	}
	kept, _ := CopiesIn(f.opts.Backups)
	if b, found := kept.Of(f.path, f.opts.Label); found {
		return f.refuse(Corrupt, problem.Damaged, "is empty, but its backup "+b.Dir+" says that it once was not",
			"put it back with `gatewayd restore "+b.Dir+"`, or move the empty file away", nil)
	}
	return nil
}

// Vacant tells whether Open with Create would make a new database at the path. It changes nothing. Where something
// lies already it is a Conflict problem, and where a database got lost the refusal that Open gives.
func Vacant(path, label string) error {
	f, err := newFile(Options{Path: path, Label: label, Create: true})
	if err != nil {
		return err
	}
	found, err := f.survey()
	if err == nil && found == placeContent {
		err = f.refuse(Other, problem.Conflict, "exists already", "", fs.ErrExist)
	}
	return err
}

// traces lists what backups, forensic copies and records lie beside the database.
func (f *File) traces() ([]string, error) {
	entries, err := os.ReadDir(f.dir())
	if err != nil {
		return nil, err
	}
	var found []string
	prefix := filepath.Base(f.path) + "."
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && slices.ContainsFunc(traceWords, func(w string) bool { return strings.Contains(rest, w) }) {
			found = append(found, e.Name())
		}
	}
	return found, nil
}

// traceWords are what the names of copies have in common: kanban.db.corrupt.<sha>.bak, state.db.retired-wal-…,
// state.db.zeroed-….bak, state.db.backup-….
var traceWords = []string{"bak", "backup", "corrupt", "retired-wal", "zeroed", "notadb", "replaced", "record"}
