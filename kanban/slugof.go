package kanban

import (
	"path/filepath"

	"gatewayd/internal/problem"
)

// SlugOf names the board whose file lies at a path, with the path's links followed. The directory says it for all but
// boards whose file is a link, for which every board is looked at.
func (r *Root) SlugOf(path string) (Slug, error) {
	for _, name := range []string{string(DefaultSlug), filepath.Base(filepath.Dir(path))} {
		if slug, err := ParseSlug(name); err == nil && resolved(r.DBPath(slug)) == path {
			return slug, nil
		}
	}
	boards, err := r.Boards()
	if err != nil {
		return "", err
	}
	for _, b := range boards {
		if b.Path == path || resolved(b.Path) == path {
			return b.Slug, nil
		}
	}
	return "", &problem.Error{Kind: problem.NotFound, Thing: path, What: "is not a board of " + r.dir, Fate: unchanged, Remedy: "list the boards with `gatewayd kanban boards list`"}
}

// resolved follows the links to a board: the file or any directory above it may be one. A file that is missing is
// where its directory is.
func resolved(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(dir, filepath.Base(path))
}
