package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// makeWorktree gives the card a git worktree on its own branch: the card's branch_name, else wt/<task>.
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
	if current, err := w.branchOf(ctx, path); err == nil {
		if current == branch {
			return Made{Path: path, Branch: branch}, nil
		}
		path = filepath.Join(repo, ".worktrees", p.Task)
		if current, err := w.branchOf(ctx, path); err == nil && current == branch {
			return Made{Path: path, Branch: branch}, nil
		}
	}
	if err := w.addWorktree(ctx, repo, path, branch); err != nil {
		return Made{}, err
	}
	return Made{Path: path, Branch: branch}, nil
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
	if p.Path == "" || filepath.Clean(p.Path) == repo {
		return repo, filepath.Join(repo, ".worktrees", p.Task), nil
	}
	return repo, filepath.Clean(p.Path), nil
}

// repoOf gives the main checkout that dir, or its nearest existing parent, belongs to.
func (w Workspaces) repoOf(ctx context.Context, dir string) (string, error) {
	for !isDir(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	out, err := w.Git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return "", fmt.Errorf("%s is not in a git repository: %w", dir, err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// branchOf gives the branch of a checkout whose top is path.
func (w Workspaces) branchOf(ctx context.Context, path string) (string, error) {
	if !isDir(path) {
		return "", os.ErrNotExist
	}
	top, err := w.Git(ctx, path, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(top)) != path {
		return "", errors.New("not the top of a checkout")
	}
	out, err := w.Git(ctx, path, "symbolic-ref", "--short", "HEAD")
	return strings.TrimSpace(string(out)), err
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
