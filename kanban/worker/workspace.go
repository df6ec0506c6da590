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
	dir := filepath.Join(p.Root, p.Task)
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
	return Made{Path: filepath.Clean(p.Path)}, nil
}

// ErrOutside says that a path is not strictly inside the board's workspaces directory.
var ErrOutside = errors.New("path is outside the board's workspaces")

// RemoveScratch deletes a scratch workspace, if it is strictly inside root both by its name and after all
// links are resolved. People have lost their source trees to a removal that trusted workspace_path.
func RemoveScratch(root, path string) error {
	if err := contained(root, path); err != nil {
		return err
	}
	parent, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("open workspaces: %w", err)
	}
	defer parent.Close()
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if err := parent.RemoveAll(rel); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return nil
}

func contained(root, path string) error {
	if !filepath.IsAbs(root) || !filepath.IsAbs(path) || !strictlyInside(filepath.Clean(root), filepath.Clean(path)) {
		return fmt.Errorf("remove workspace %s: %w", path, ErrOutside)
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	realPath, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if !strictlyInside(realRoot, realPath) {
		return fmt.Errorf("remove workspace %s (really %s): %w", path, realPath, ErrOutside)
	}
	return nil
}

func strictlyInside(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}
