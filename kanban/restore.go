package kanban

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/problem"
)

// Archived is a board that was moved away.
type Archived struct {
	Name string    `json:"name"` // of its directory in _archived, which Restore takes
	Slug Slug      `json:"slug"` // that it had
	At   time.Time `json:"archived_at"`
	Path string    `json:"path"`
}

// archivedName is a slug, the second it left, and a number where two left in one.
var archivedName = regexp.MustCompile(`^(.+?)-(\d{9,11})(-\d+)?$`)

// Archived lists the boards that were moved away, the newest first. Directories that Archive did not name are passed over.
func (r *Root) Archived() ([]Archived, error) {
	away := filepath.Join("kanban", "boards", archiveDir)
	entries, err := r.readDir(away)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diskProblem("the archived boards below "+r.dir, "cannot be listed", unchanged, err)
	}
	var list []Archived
	for _, e := range entries {
		parts := archivedName.FindStringSubmatch(e.Name())
		if parts == nil || !e.IsDir() || !validSlug(parts[1]) {
			continue
		}
		seconds, _ := strconv.ParseInt(parts[2], 10, 64) // at most eleven digits
		list = append(list, Archived{Name: e.Name(), Slug: Slug(parts[1]), At: time.Unix(seconds, 0), Path: filepath.Join(r.dir, away, e.Name())})
	}
	slices.SortStableFunc(list, func(a, b Archived) int { return b.At.Compare(a.At) })
	return list, nil
}

// Restore puts an archived board back, whole, under the slug it had: its files name their places below it. name is that of its
// directory, or the slug of the one that left last. A board that is there is never overwritten.
func (r *Root) Restore(name string) (Info, error) {
	board, err := r.archived(name)
	if err != nil {
		return Info{}, err
	}
	if r.exists(board.Slug) {
		return Info{}, &problem.Error{
			Kind: problem.Conflict, Thing: "board " + string(board.Slug), What: "is there already", Fate: "the archived one stays where it is",
			Remedy: "archive that one first, or export it and import it under another slug", Err: mark{ErrConflict},
		}
	}
	from := filepath.Join("kanban", "boards", archiveDir, board.Name)
	err = r.fs.Rename(from, boardDir(board.Slug))
	if err == nil {
		err = errors.Join(r.syncDir(filepath.Dir(boardDir(board.Slug))), r.syncDir(filepath.Dir(from)))
	}
	if err != nil {
		return Info{}, diskProblem("archived board "+board.Name, "cannot be put back", "it stays where it is", err)
	}
	return r.info(board.Slug), nil
}

func (r *Root) archived(name string) (Archived, error) {
	list, err := r.Archived()
	if err != nil {
		return Archived{}, err
	}
	names := make([]string, 0, len(list))
	for _, a := range list {
		if a.Name == name || string(a.Slug) == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	what := "is not there; no board is archived"
	if len(names) > 0 {
		what = "is not there; archived are " + joinSome(names, 10)
	}
	return Archived{}, &problem.Error{Kind: problem.NotFound, Thing: "archived board " + strconv.Quote(strings.ToValidUTF8(name, "?")), What: what, Fate: unchanged}
}
