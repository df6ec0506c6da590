package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// forest is a repository with a remote that has its first commit.
type forest struct {
	t    *testing.T
	repo string
	w    Workspaces
}

func newForest(t *testing.T) *forest {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: worktrees, because git is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &forest{t: t, repo: filepath.Join(base, "repo"), w: Workspaces{Git: git}}
	mkdir(t, f.repo, filepath.Join(base, "remote"))
	f.git(filepath.Join(base, "remote"), "init", "-q", "--bare")
	f.git(f.repo, "init", "-q")
	f.commit(f.repo, "first")
	f.git(f.repo, "remote", "add", "origin", filepath.Join(base, "remote"))
	f.git(f.repo, "push", "-q", "origin", "HEAD:main")
	return f
}

func (f *forest) git(dir string, args ...string) string {
	f.t.Helper()
	out, err := git(f.t.Context(), dir, append([]string{"-c", "user.email=a@b", "-c", "user.name=n"}, args...)...)
	if err != nil {
		f.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *forest) commit(dir, message string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "tracked"), []byte(message), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.git(dir, "add", "tracked")
	f.git(dir, "commit", "-q", "-m", message)
}

func (f *forest) make(task string, change ...func(*Place)) Tree {
	f.t.Helper()
	p := Place{Task: task, Kind: "worktree", BoardWorkdir: f.repo}
	for _, c := range change {
		c(&p)
	}
	made, err := f.w.Make(f.t.Context(), p)
	if err != nil {
		f.t.Fatal(err)
	}
	return Tree{Task: task, Path: made.Path, Branch: made.Branch}
}

func (f *forest) branches() string { return f.git(f.repo, "branch", "--format=%(refname:short)") }

func (f *forest) stays(why string, tree Tree) {
	f.t.Helper()
	if err := f.w.RemoveWorktree(f.t.Context(), tree); !errors.Is(err, ErrKept) {
		f.t.Errorf("%s: %v", why, err)
	}
	if _, err := os.Stat(filepath.Join(tree.Path, ".git")); err != nil {
		f.t.Fatalf("%s: the worktree is gone", why)
	}
}

func (f *forest) goes(tree Tree) {
	f.t.Helper()
	if err := f.w.RemoveWorktree(f.t.Context(), tree); err != nil {
		f.t.Error(err)
	}
	if _, err := os.Lstat(tree.Path); !errors.Is(err, os.ErrNotExist) {
		f.t.Errorf("%s is still there", tree.Path)
	}
	if list := f.git(f.repo, "worktree", "list"); strings.Contains(list, tree.Path+" ") {
		f.t.Errorf("git still knows it: %s", list)
	}
}

func TestAWorktreeGoesWhenItsCommitsAreOnARemote(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	own := f.make("t_1")
	f.commit(own.Path, "work")
	f.git(own.Path, "push", "-q", "origin", "HEAD:refs/heads/work")
	f.goes(own)
	if strings.Contains(f.branches(), "wt/t_1") {
		t.Error("its branch stays")
	}
	named := f.make("t_2", func(p *Place) { p.Branch = "feature" })
	f.goes(named)
	if !strings.Contains(f.branches(), "feature") {
		t.Error("a branch that is not ours went")
	}
	f.goes(own) // again
}

func TestAWorktreeWithCommitsOfItsOwnStays(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	tree := f.make("t_1")
	f.commit(tree.Path, "work")
	f.stays("unpushed", tree)
	f.git(tree.Path, "checkout", "-q", "--detach")
	f.commit(tree.Path, "detached")
	f.stays("detached", tree)
	f.git(tree.Path, "push", "-q", "origin", "HEAD:refs/heads/work")
	f.goes(tree)
}

func TestAWorktreeWithChangesStays(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	tree := f.make("t_1")
	file := filepath.Join(tree.Path, "new")
	os.WriteFile(file, []byte("x"), 0o600)
	f.stays("untracked", tree)
	f.git(tree.Path, "add", "new")
	f.stays("staged", tree)
	f.git(tree.Path, "rm", "-q", "--cached", "new")
	os.Remove(file)
	os.WriteFile(filepath.Join(tree.Path, "tracked"), []byte("changed"), 0o600)
	f.stays("changed", tree)
	f.git(tree.Path, "update-index", "--assume-unchanged", "tracked")
	f.stays("hidden from git", tree)
	f.git(tree.Path, "update-index", "--no-assume-unchanged", "tracked")
	f.git(tree.Path, "checkout", "-q", "tracked")
	f.git(f.repo, "worktree", "lock", tree.Path)
	f.stays("locked", tree)
	f.git(f.repo, "worktree", "unlock", tree.Path)
	f.goes(tree)
}

func TestWhatWeDidNotMakeIsNeverRemoved(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	theirs := filepath.Join(filepath.Dir(f.repo), "theirs")
	f.git(f.repo, "worktree", "add", "-q", "-b", "wt/t_1", theirs)
	reused := f.make("t_1", func(p *Place) { p.Path, p.Branch = theirs, "wt/t_1" })
	if reused.Path != theirs {
		t.Fatalf("%+v", reused)
	}
	f.stays("a person's checkout that was reused", reused)
	other := f.make("t_2")
	f.stays("another card's", Tree{Task: "t_3", Path: other.Path, Branch: other.Branch})
	f.stays("the repository", Tree{Task: "t_1", Path: f.repo, Branch: "wt/t_1"})
	inside := filepath.Join(other.Path, "sub")
	mkdir(t, inside)
	link := filepath.Join(filepath.Dir(f.repo), "link")
	if err := os.Symlink(other.Path, link); err != nil {
		t.Fatal(err)
	}
	for why, path := range map[string]string{"inside": inside, "link": link, "relative": "theirs", "no repository": filepath.Dir(f.repo), "root": "/"} {
		if err := f.w.RemoveWorktree(t.Context(), Tree{Task: "t_2", Path: path, Branch: "wt/t_2"}); !errors.Is(err, ErrKept) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := os.Stat(inside); err != nil {
		t.Error("the worktree is gone")
	}
}

func TestACardGetsItsUsualPlaceWhereItsPathIsOnAnotherBranch(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	theirs := filepath.Join(filepath.Dir(f.repo), "theirs")
	f.git(f.repo, "worktree", "add", "-q", "-b", "other", theirs)
	usual := filepath.Join(f.repo, ".worktrees", "t_1")
	for name, path := range map[string]string{"another branch": theirs, "the repository": f.repo, "no path": ""} {
		made := f.make("t_1", func(p *Place) { p.Path = path })
		if made.Path != usual || made.Branch != "wt/t_1" {
			t.Errorf("%s: %+v", name, made)
		}
	}
	link := filepath.Join(filepath.Dir(f.repo), "link")
	if err := os.Symlink(usual, link); err != nil {
		t.Fatal(err)
	}
	if made := f.make("t_1", func(p *Place) { p.Path = link }); made.Path != link {
		t.Errorf("by a link: %+v", made)
	}
}
