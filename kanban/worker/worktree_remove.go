package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/mutation"
)

// Tree is a git worktree that a card was worked on in.
type Tree struct{ Task, Path, Branch string }

// ErrKept says that a worktree stays because something in it would be lost, or because it is not ours to remove.
var ErrKept = errors.New("worktree stays")

// ownerMark lies in git's own directory for a worktree that we made, and names the card. It goes with the worktree.
const ownerMark = "gatewayd-card"

// removeAgain is the pause before the one second try: a process that just ended may still be letting go of files.
const removeAgain = 100 * time.Millisecond

// RemoveWorktree takes a worktree away when that loses nothing: we made it for this card, nothing in it is changed or untracked,
// and every commit of it is in some branch of a remote. It is never forced, and git looks once more before it deletes. The
// branch goes with it only when its name begins with wt/ and it still is the commit that was looked at. What stays is told by
// ErrKept; what is gone already is no error. It blocks for git, a few seconds.
func (w Workspaces) RemoveWorktree(ctx context.Context, t Tree) error {
	if !filepath.IsAbs(t.Path) || strings.HasPrefix(t.Branch, "-") {
		return kept(t, "its path or branch cannot be given to git")
	}
	info, err := os.Lstat(t.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return kept(t, "it is no directory but "+info.Mode().Type().String())
	}
	c, err := w.checkout(ctx, t.Path)
	if err != nil {
		return kept(t, err.Error())
	}
	if err := c.removable(t); err != nil {
		return err
	}
	tip, err := w.nothingLost(ctx, t, c)
	if err != nil {
		return err
	}
	if err := w.removeTree(ctx, t, c); err != nil {
		return err
	}
	return w.removeBranch(ctx, t, c, tip)
}

func kept(t Tree, why string) error { return fmt.Errorf("%w: %s: %s", ErrKept, t.Path, why) }

// checkout is what git says about a directory. All paths are without links.
type checkout struct{ top, gitDir, common string }

func (c checkout) linked() bool { return c.gitDir != c.common }

// repo is the main checkout.
func (c checkout) repo() string { return filepath.Dir(c.common) }

func (w Workspaces) checkout(ctx context.Context, dir string) (c checkout, err error) {
	for arg, dest := range map[string]*string{"--show-toplevel": &c.top, "--git-dir": &c.gitDir, "--git-common-dir": &c.common} {
		if *dest, err = w.ask(ctx, dir, "rev-parse", "--path-format=absolute", arg); err != nil {
			return c, err
		}
		if *dest, err = filepath.EvalSymlinks(*dest); err != nil {
			return c, err
		}
	}
	return c, nil
}

// ask gives git's answer without the newline at its end: a path may have blanks.
func (w Workspaces) ask(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := w.Git(ctx, dir, args...)
	if err != nil {
		return "", fmt.Errorf("git %s in %s: %w", args[0], dir, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// removable: the directory is the top of a linked worktree, and we made it for the card. Hermes leaves no mark, so one at the
// place that both give a card without a path of its own counts as well.
func (c checkout) removable(t Tree) error {
	resolved, err := filepath.EvalSymlinks(t.Path)
	switch {
	case err != nil:
		return kept(t, err.Error())
	case !c.linked():
		return kept(t, "it is the repository itself, not a worktree of one")
	case c.top != resolved:
		return kept(t, "it is not the top of a worktree")
	}
	owner, err := os.ReadFile(filepath.Join(c.gitDir, ownerMark))
	if err == nil && strings.TrimSpace(string(owner)) == t.Task {
		return nil
	}
	if errors.Is(err, os.ErrNotExist) && resolved == filepath.Join(c.repo(), ".worktrees", t.Task) {
		return nil
	}
	return kept(t, "it was not made for this card")
}

// nothingLost gives the commit of the branch when nothing of the worktree exists here alone.
func (w Workspaces) nothingLost(ctx context.Context, t Tree, c checkout) (tip string, err error) {
	changed, err := w.ask(ctx, c.top, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil || changed != "" {
		return "", kept(t, "it has changes that are not committed")
	}
	hidden, err := w.ask(ctx, c.top, "ls-files", "-v")
	if err != nil || hides(hidden) {
		return "", kept(t, "git was told to look away from some of its files")
	}
	heads := []string{"HEAD"}
	if tip, err = w.ask(ctx, c.top, "rev-parse", "--verify", "--quiet", "refs/heads/"+t.Branch); err == nil {
		heads = append(heads, tip)
	}
	alone, err := w.ask(ctx, c.top, append(append([]string{"rev-list", "--max-count=1"}, heads...), "--not", "--remotes")...)
	if mutation.On("worktree-removed-with-unpushed-commits") {
		return tip, nil
	}
	if err != nil || alone != "" {
		return "", kept(t, "it has commits that are in no branch of a remote")
	}
	return tip, nil
}

// hides: `ls-files -v` has a lower-case letter before files whose changes git does not report.
func hides(files string) bool {
	for line := range strings.Lines(files) {
		if line[0] >= 'a' && line[0] <= 'z' {
			return true
		}
	}
	return false
}

func (w Workspaces) removeTree(ctx context.Context, t Tree, c checkout) error {
	_, err := w.ask(ctx, c.repo(), "worktree", "remove", c.top)
	if err == nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-time.After(removeAgain):
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err = w.ask(ctx, c.repo(), "worktree", "remove", c.top); err != nil {
		return kept(t, err.Error())
	}
	return nil
}

// removeBranch deletes a branch of ours, by compare-and-swap on its commit, unless it is checked out somewhere else.
func (w Workspaces) removeBranch(ctx context.Context, t Tree, c checkout, tip string) error {
	if !strings.HasPrefix(t.Branch, "wt/") || tip == "" {
		return nil
	}
	elsewhere, err := w.ask(ctx, c.repo(), "for-each-ref", "--format=%(worktreepath)", "refs/heads/"+t.Branch)
	if err != nil || strings.TrimSpace(elsewhere) != "" {
		return err
	}
	_, err = w.ask(ctx, c.repo(), "update-ref", "-d", "refs/heads/"+t.Branch, tip)
	return err
}

// own leaves the mark of a worktree that was just made.
func (w Workspaces) own(ctx context.Context, path, task string) error {
	c, err := w.checkout(ctx, path)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.gitDir, ownerMark), []byte(task+"\n"), 0o600)
	}
	return err
}
