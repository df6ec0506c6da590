package worker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWorkspaceFailuresSayWorkspace(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(root, "t_link")); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Place{
		"relative dir": {Task: "t_1", Kind: "dir", Path: "x", Root: root},
		"unknown kind": {Task: "t_1", Kind: "cloud", Root: root},
		"hostile id":   {Task: "../../etc", Kind: "scratch", Root: root},
		"link":         {Task: "t_link", Kind: "scratch", Root: root},
		"no repo":      {Task: "t_1", Kind: "worktree", Path: filepath.Join(root, "wt"), Root: root},
	} {
		made, err := Workspaces{Git: git}.Make(t.Context(), p)
		if err == nil || !strings.HasPrefix(err.Error(), "workspace: ") {
			t.Errorf("%s: %v %v", name, made, err)
		}
	}
}

func TestScratchAndDirAreCreatedOnceAndKept(t *testing.T) {
	root := filepath.Join(t.TempDir(), "workspaces")
	dir := filepath.Join(root, "..", "elsewhere", "deep")
	for _, p := range []Place{{Task: "t_1", Root: root}, {Task: "t_2", Kind: "dir", Path: dir, Root: root}} {
		first, err := Workspaces{}.Make(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(first.Path, "f"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Workspaces{}.Make(t.Context(), p)
		if err != nil || again != first {
			t.Fatalf("%v %v, first %v", again, err, first)
		}
	}
}

func TestWorktreeIsMadeOnItsBranchAndFoundAgain(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: worktrees, because git is not installed")
	}
	repo := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.email=a@b", "-c", "user.name=n", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := git(t.Context(), repo, args...); err != nil {
			t.Fatalf("%s %v", out, err)
		}
	}
	w := Workspaces{Git: git}
	made, err := w.Make(t.Context(), Place{Task: "t_1", Kind: "worktree", BoardWorkdir: repo})
	if err != nil {
		t.Fatal(err)
	}
	if made != (Made{Path: filepath.Join(repo, ".worktrees", "t_1"), Branch: "wt/t_1"}) {
		t.Fatalf("%+v", made)
	}
	again, err := w.Make(t.Context(), Place{Task: "t_1", Kind: "worktree", Path: made.Path, Branch: made.Branch})
	if err != nil || again != made {
		t.Fatalf("%+v %v", again, err)
	}
	if _, err := w.Make(t.Context(), Place{Task: "t_2", Kind: "worktree", Path: repo, Branch: "--force"}); err == nil {
		t.Fatal("a branch that is an option was accepted")
	}
}

func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

func mkdir(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
