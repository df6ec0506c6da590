package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// makeWorktree gives the card a git worktree on its own branch: the card's branch_name, else wt/<task>. A linked checkout
// that is on that branch is used as it is. Where the card's path is one on another branch, the card's usual place is taken.
func (w Workspaces) makeWorktree(ctx context.Context, p Place) (Made, error) {
	branch := p.Branch
	if branch == "" {
		branch = "wt/" + p.Task
	}
	if strings.HasPrefix(branch, "-") {
		return Made{}, fmt.Errorf("branch %q would be read as an option", branch)
	}
	repo, path, err := w.worktreePlace(ctx, p)
	if err != nil {
		return Made{}, err
	}
	usual := filepath.Join(repo, ".worktrees", p.Task)
	for _, at := range []string{path, usual} {
		current, err := w.branchOf(ctx, at)
		if err != nil {
			path = at
			break
		}
		if current == branch {
			return Made{Path: at, Branch: branch}, nil
		}
		if at == usual {
			return Made{}, fmt.Errorf("%s is on branch %q and the card wants %q; move it away", at, current, branch)
		}
	}
	if err := w.addWorktree(ctx, repo, path, branch); err != nil {
		return Made{}, err
	}
	return Made{Path: path, Branch: branch}, w.own(ctx, path, p.Task)
}

// worktreePlace finds the repository and the worktree's path. The repository's own root is never the worktree.
func (w Workspaces) worktreePlace(ctx context.Context, p Place) (repo, path string, err error) {
	from := p.Path
	if from == "" {
		from = p.BoardWorkdir
	}
	if !filepath.IsAbs(from) {
		return "", "", fmt.Errorf("path %q is not absolute, and the board has no default_workdir inside a git repository", from)
	}
	repo, err = w.repoOf(ctx, from)
	if err != nil {
		return "", "", err
	}
	if p.Path == "" || samePlace(p.Path, repo) {
		return repo, filepath.Join(repo, ".worktrees", p.Task), nil
	}
	return repo, filepath.Clean(p.Path), nil
}

// repoOf gives the main checkout that dir, or its nearest existing parent, belongs to.
func (w Workspaces) repoOf(ctx context.Context, dir string) (string, error) {
	for !isDir(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	out, err := w.ask(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return "", fmt.Errorf("%s is not in a git repository: %w", dir, err)
	}
	return filepath.Dir(out), nil
}

// branchOf gives the branch of the linked checkout whose top is path. Anything else is an error: there a worktree can
// only be made, or not.
func (w Workspaces) branchOf(ctx context.Context, path string) (string, error) {
	if !isDir(path) {
		return "", os.ErrNotExist
	}
	c, err := w.checkout(ctx, path)
	if err != nil {
		return "", err
	}
	if !samePlace(path, c.top) || !c.linked() {
		return "", errors.New("not the top of a linked checkout")
	}
	return w.ask(ctx, path, "symbolic-ref", "--short", "--quiet", "HEAD")
}

// samePlace compares two paths with their links followed.
func samePlace(a, b string) bool {
	ra, erra := filepath.EvalSymlinks(a)
	rb, errb := filepath.EvalSymlinks(b)
	return erra == nil && errb == nil && ra == rb || filepath.Clean(a) == filepath.Clean(b)
}

func (w Workspaces) addWorktree(ctx context.Context, repo, path, branch string) error {
	args := []string{"worktree", "add", path, branch}
	if _, err := w.Git(ctx, repo, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
		args = []string{"worktree", "add", "-b", branch, path, "HEAD"}
	}
	if out, err := w.Git(ctx, repo, args...); err != nil {
		return fmt.Errorf("git worktree add: %w: %.200s", err, out)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
