package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Workspaces makes and removes the directories in which cards are worked on.
type Workspaces struct {
	Git func(ctx context.Context, dir string, args ...string) ([]byte, error) // runs git, for worktree cards
}

// Place is what a card asks for and where a board keeps its own directories.
type Place struct {
	Kind, Path, Branch string // as the card holds them
	Task               string
	Root               string // the board's workspaces directory
	BoardWorkdir       string // the board's default_workdir, for worktree cards without a path
}

// Dir is the directory that Make makes of it. That of a worktree depends on its repository: it is known by its path, once
// there is one, and "" before.
func (p Place) Dir() string {
	switch {
	case p.Kind == "" || p.Kind == "scratch":
		return filepath.Join(p.Root, p.Task)
	case p.Path == "":
		return ""
	}
	return filepath.Clean(p.Path)
}

// Made is a workspace that is there now.
type Made struct{ Path, Branch string }

// Make resolves and creates the workspace. All its errors begin with "workspace: ", which is how the board
// tells them from a program that could not be started.
func (w Workspaces) Make(ctx context.Context, p Place) (Made, error) {
	made, err := w.makeKind(ctx, p)
	if err != nil && !strings.HasPrefix(err.Error(), "workspace: ") {
		err = fmt.Errorf("workspace: %w", err)
	}
	return made, err
}

func (w Workspaces) makeKind(ctx context.Context, p Place) (Made, error) {
	if err := CheckID(p.Task); err != nil {
		return Made{}, err
	}
	switch p.Kind {
	case "", "scratch":
		return makeScratch(p)
	case "dir":
		return makeDir(p)
	case "worktree":
		return w.makeWorktree(ctx, p)
	}
	return Made{}, fmt.Errorf("kind %q is none of scratch, dir, worktree", p.Kind)
}

// makeScratch makes <root>/<task>. A link in its place is refused: it would lead the worker, and later the
// removal, somewhere else.
func makeScratch(p Place) (Made, error) {
	dir := p.Dir()
	if err := os.MkdirAll(p.Root, 0o700); err != nil {
		return Made{}, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return Made{}, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return Made{}, err
	}
	if !info.IsDir() {
		return Made{}, fmt.Errorf("%s is not a directory of ours", dir)
	}
	return Made{Path: dir}, nil
}

func makeDir(p Place) (Made, error) {
	if !filepath.IsAbs(p.Path) {
		return Made{}, fmt.Errorf("path %q is not absolute", p.Path)
	}
	if err := os.MkdirAll(p.Path, 0o755); err != nil {
		return Made{}, err
	}
	return Made{Path: p.Dir()}, nil
}
