package kanban

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gatewayd/internal/problem"
)

// Root is the directory that holds the boards:
//
//	kanban.db                     the default board
//	kanban/current                the current board's name
//	kanban/logs, workspaces       of the default board
//	kanban/boards/<slug>/         board.json, kanban.db, logs, workspaces of every other board
//
// Every path that a name from outside leads to is reached through an os.Root, so that neither a slug nor a link
// leads out of it. A Root is safe for concurrent use.
type Root struct {
	dir string
	fs  *os.Root
}

// Info is one board on disk.
type Info struct {
	Slug           Slug   `json:"slug"`
	Name           string `json:"name"`
	Description    string `json:"description"`
	Icon           string `json:"icon"`
	Color          string `json:"color"`
	DefaultWorkdir string `json:"default_workdir"`
	ProjectID      string `json:"project_id"`
	CreatedAt      int64  `json:"created_at"`
	Archived       bool   `json:"archived"`
	MaxInProgress  int    `json:"max_in_progress,omitempty"` // workers at the same time; 0 = kanban.max_per_board
	Path           string `json:"db_path"`
	HasFile        bool   `json:"has_file"`          // kanban.db is there; without it the board has only its board.json
	Trouble        string `json:"trouble,omitempty"` // what of it could not be read
}

// OpenRoot opens an existing directory as the root of boards. It creates nothing.
func OpenRoot(dir string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open board root: %w", err)
	}
	info, err := os.Stat(abs) // first, because opening a FIFO would wait for ever
	if err == nil && !info.IsDir() {
		return nil, &problem.Error{
			Kind: problem.Config, Thing: "board root " + abs, What: "is not a directory (" + info.Mode().String() + ")", Fate: unchanged, Remedy: nameRoot,
		}
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(abs)
	}
	if err != nil {
		return nil, rootProblem(abs, err)
	}
	return &Root{dir: abs, fs: root}, nil
}

const nameRoot = "name the right place with --home or kanban.root"

func rootProblem(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &problem.Error{
			Kind: problem.NotFound, Thing: "board root " + dir, What: "does not exist", Fate: "nothing was created",
			Remedy: "start gatewayd once, or " + nameRoot, Err: mark{fs.ErrNotExist},
		}
	}
	return diskProblem("board root "+dir, "cannot be opened", unchanged, err)
}

// diskProblem says what to do about a directory or a small file that cannot be read or written.
func diskProblem(thing, what, fate string, err error) error {
	if _, said := errors.AsType[*problem.Error](err); said {
		return err
	}
	p := &problem.Error{Kind: problem.Unavailable, Thing: thing, What: what, Fate: fate, Remedy: "see that each part of the path is a directory", Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		p.Kind, p.Remedy = problem.Full, "free some space and try again"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		p.Kind, p.Remedy = problem.Full, "raise the limit of open files"
	case errors.Is(err, syscall.EROFS):
		p.Kind, p.Remedy = problem.Config, "the file system is read-only: make it writable, or "+nameRoot
	case errors.Is(err, fs.ErrPermission):
		p.Kind, p.Remedy = problem.Denied, "check owner and permissions of the directory"
	case errors.Is(err, syscall.EIO):
		p.Remedy = "see the kernel log for the disk"
	}
	return p
}

// Close gives the directory back.
func (r *Root) Close() error { return r.fs.Close() }

// Dir is the absolute path of the root.
func (r *Root) Dir() string { return r.dir }

// boardDir is where everything of a board but the default board's file lies, relative to the root.
func boardDir(slug Slug) string { return filepath.Join("kanban", "boards", string(slug)) }

// workDir holds a board's workspaces and logs; the default board keeps them beside boards/, where older Hermes has them.
func workDir(slug Slug) string {
	if slug == DefaultSlug {
		return "kanban"
	}
	return boardDir(slug)
}

func dbFile(slug Slug) string {
	if slug == DefaultSlug {
		return "kanban.db"
	}
	return filepath.Join(boardDir(slug), "kanban.db")
}

// DBPath is the absolute path of a board's file, whether it exists or not.
func (r *Root) DBPath(slug Slug) string { return filepath.Join(r.dir, dbFile(slug)) }

// WorkspaceDir is the scratch directory of a card.
func (r *Root) WorkspaceDir(slug Slug, task string) string {
	return filepath.Join(r.dir, workDir(slug), "workspaces", fileName(task))
}

// WorkspacesDir holds the scratch directories of a board's cards.
func (r *Root) WorkspacesDir(slug Slug) string {
	return filepath.Join(r.dir, workDir(slug), "workspaces")
}

// AttachmentsDir holds the files that are attached to a board's cards.
func (r *Root) AttachmentsDir(slug Slug) string {
	return filepath.Join(r.dir, workDir(slug), "attachments")
}

// LogsDir holds the logs of a board's workers.
func (r *Root) LogsDir(slug Slug) string { return filepath.Join(r.dir, workDir(slug), "logs") }

// ExportsDir is where exports go when nobody says otherwise.
func (r *Root) ExportsDir() string { return filepath.Join(r.dir, "kanban", "board-exports") }

// LogPath is the log of a card's workers.
func (r *Root) LogPath(slug Slug, task string) string {
	return filepath.Join(r.dir, workDir(slug), "logs", fileName(task)+".log")
}

// fileName keeps an id from the file, which anybody may have written, from being understood as a path.
func fileName(task string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, task)
	if name == "" || strings.HasPrefix(name, ".") {
		return "_" + name
	}
	return name
}

// Boards lists the boards that are in use: default first, then by name. It is meant for every tick: nothing is cached, so a
// board made by anybody is seen. A board that its board.json calls archived is left out.
func (r *Root) Boards() ([]Info, error) {
	all, err := r.AllBoards()
	return slices.DeleteFunc(all, func(i Info) bool { return i.Archived && i.Slug != DefaultSlug }), err
}

// AllBoards is Boards with the archived ones. A directory whose name is no slug, or that holds neither board.json nor
// kanban.db, is no board.
func (r *Root) AllBoards() ([]Info, error) {
	entries, err := r.readDir(filepath.Join("kanban", "boards"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diskProblem("the boards below "+r.dir, "cannot be listed", unchanged, err)
	}
	infos := []Info{r.info(DefaultSlug)}
	for _, e := range entries {
		slug := Slug(e.Name())
		if !validSlug(e.Name()) || slug == DefaultSlug || !r.exists(slug) {
			continue
		}
		infos = append(infos, r.info(slug))
	}
	slices.SortFunc(infos[1:], func(a, b Info) int { return strings.Compare(string(a.Slug), string(b.Slug)) })
	return infos, nil
}

// readDir lists a directory in order of names. What is none must not be opened as a file would be: a FIFO waits.
func (r *Root) readDir(name string) ([]fs.DirEntry, error) {
	dir, err := r.fs.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// exists: a board is a directory with a board.json or a kanban.db. What cannot be looked at counts as one, so that it
// shows up with its trouble instead of vanishing.
func (r *Root) exists(slug Slug) bool {
	if slug == DefaultSlug {
		return true
	}
	for _, name := range []string{filepath.Join(boardDir(slug), "board.json"), dbFile(slug)} {
		if _, err := r.fs.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) && !isNotDir(err) {
			return true
		}
	}
	return false
}

func (r *Root) info(slug Slug) Info {
	info := Info{Slug: slug, Name: slug.title(), Path: r.DBPath(slug)}
	doc, err := r.readDoc(slug)
	if err == nil {
		doc.fill(&info)
	} else if !errors.Is(err, fs.ErrNotExist) {
		info.Trouble = "board.json: " + err.Error()
	}
	st, err := r.fs.Stat(dbFile(slug))
	switch {
	case err == nil:
		info.HasFile = true
		if !st.Mode().IsRegular() {
			info.Trouble = "kanban.db is not a file: " + st.Mode().String()
		}
	case !errors.Is(err, fs.ErrNotExist):
		info.Trouble = "kanban.db: " + err.Error()
	}
	return info
}

// Known gives nil for a board that is there, else the problem that says how to create it. It reads nothing of the board, so that it
// can be asked before each use: nearly half the time of reading a card went into reading what people say about its board.
func (r *Root) Known(slug Slug) error {
	if !validSlug(string(slug)) {
		_, err := ParseSlug(string(slug))
		return err
	}
	if !r.exists(slug) {
		return missingBoard(slug, r.DBPath(slug))
	}
	return nil
}

// Lookup gives one board, or Known's problem.
func (r *Root) Lookup(slug Slug) (Info, error) {
	if err := r.Known(slug); err != nil {
		return Info{}, err
	}
	return r.info(slug), nil
}
