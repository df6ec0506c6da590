package reaper_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/reaper"
)

func TestAStartThatFailsSaysWhatToDoAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	badDir := filepath.Join(dir, "missing")
	bin := []string{path}
	cases := map[string]struct {
		spec reaper.Spec
		want error
		says string
	}{
		"no command":       {reaper.Spec{Env: bin}, nil, "give it a program"},
		"not in PATH":      {reaper.Spec{Argv: []string{"no-such-program"}, Env: []string{"PATH=" + dir}}, fs.ErrNotExist, `is not in PATH "` + dir},
		"missing file":     {reaper.Spec{Argv: []string{"/no/such/program"}, Env: bin}, fs.ErrNotExist, "does not exist"},
		"not executable":   {reaper.Spec{Argv: []string{file("plain", "x", 0o600)}, Env: bin}, fs.ErrPermission, "chmod +x"},
		"only a plain one": {reaper.Spec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, fs.ErrPermission, "chmod +x"},
		"a directory":      {reaper.Spec{Argv: []string{dir}, Env: bin}, syscall.EISDIR, "is a directory"},
		"no #! line":       {reaper.Spec{Argv: []string{file("script", "echo hi\n", 0o700)}, Env: bin}, syscall.ENOEXEC, "#! line"},
		"no interpreter":   {reaper.Spec{Argv: []string{file("lost", "#!/no/such\n", 0o700)}, Env: bin}, fs.ErrNotExist, "interpreter"},
		"no directory":     {reaper.Spec{Argv: []string{"true"}, Env: bin, Dir: badDir}, fs.ErrNotExist, "working directory " + badDir},
		"file for dir":     {reaper.Spec{Argv: []string{"true"}, Env: bin, Dir: file("f", "", 0o600)}, syscall.ENOTDIR, "working directory"},
		"log in a file":    {reaper.Spec{Argv: []string{"true"}, Env: bin, LogPath: filepath.Join(file("g", "", 0o600), "log")}, syscall.ENOTDIR, "cannot be written"},
		"log is a dir":     {reaper.Spec{Argv: []string{"true"}, Env: bin, LogPath: dir}, syscall.EISDIR, "cannot be written"},
		"too long":         {reaper.Spec{Argv: []string{"true", strings.Repeat("x", 1<<18)}, Env: bin}, syscall.E2BIG, "in a file"},
	}
	records := t.TempDir()
	r := newReaper(t, in(records))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.spec.ID = "failing"
			p, err := r.Start(t.Context(), c.spec)
			failed, ok := errors.AsType[*reaper.StartError](err)
			if p != nil || !ok {
				t.Fatalf("Start gave %v, %v", p, err)
			}
			if len(c.spec.Argv) > 0 && failed.Argv0 != c.spec.Argv[0] {
				t.Errorf("Argv0 %q", failed.Argv0)
			}
			if told, ok := errors.AsType[*problem.Error](err); !ok || told.Remedy == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("says %q, want %q", err, c.says)
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v is not %v", err, c.want)
			}
			if files, _ := os.ReadDir(records); len(files) != 0 {
				t.Errorf("left behind: %v", files)
			}
		})
	}
}

func TestAnIDIsCheckedAndUsedOnce(t *testing.T) {
	r := newReaper(t)
	for _, id := range []string{"", "../x", "A", "a b", "a.start", strings.Repeat("a", 65)} {
		spec := shell("x", "exit 0")
		spec.ID = id
		if _, err := r.Start(t.Context(), spec); !problem.Is(err, problem.Invalid) {
			t.Errorf("id %q: %v", id, err)
		}
		if _, err := r.Adopt(id); !problem.Is(err, problem.Invalid) {
			t.Errorf("adopt %q: %v", id, err)
		}
	}
	p := start(t, r, shell("once", "sleep 100"))
	if _, err := r.Start(t.Context(), shell("once", "exit 0")); !problem.Is(err, problem.Conflict) {
		t.Errorf("second start of a running id: %v", err)
	}
	if err := r.Forget("once"); !problem.Is(err, problem.Conflict) {
		t.Errorf("a running one was forgotten: %v", err)
	}
	p.Stop(0)
	wait(t, p)
	if _, err := r.Start(t.Context(), shell("once", "exit 0")); !problem.Is(err, problem.Conflict) {
		t.Errorf("second start of an ended id: %v", err)
	}
	if _, err := r.Adopt("never"); !errors.Is(err, reaper.ErrNoRecord) {
		t.Errorf("adopt of an unknown run: %v", err)
	}
}

func TestAStartThatIsCancelledStartsNothing(t *testing.T) {
	r := newReaper(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client gone")
	cancel(gone)
	mark := own("90.7410")
	if _, err := r.Start(ctx, shell("cancelled", "exec sleep "+mark)); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	if pids := marked(mark); len(pids) != 0 {
		t.Errorf("it runs: %v", pids)
	}
	if records, err := r.Records(); len(records) != 0 || err != nil {
		t.Errorf("records %v, %v", records, err)
	}
}

func TestAKeeperThatCannotRunIsToldAsAProblem(t *testing.T) {
	for exe, says := range map[string]string{"/no/such/gatewayd": "could not be started", "/bin/true": "gave no answer"} {
		r := newReaper(t, func(o *reaper.Options) { o.Exe = exe })
		_, err := r.Start(t.Context(), shell("unkept", "exit 0"))
		failed, isStart := errors.AsType[*reaper.StartError](err)
		if !isStart || failed.Argv0 != "sh" || !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", exe, err)
		}
		if records, err := r.Records(); len(records) != 0 || err != nil {
			t.Errorf("%s: records %v, %v", exe, records, err)
		}
	}
}

func TestARelativeProgramIsFoundFromTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\npwd\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newReaper(t)
	for _, spec := range []reaper.Spec{
		{Argv: []string{"./tool"}, Dir: dir, Env: []string{path}},
		{Argv: []string{"tool"}, Dir: dir, Env: []string{"PATH=."}},
	} {
		out, _, err := r.Output(t.Context(), spec)
		if err != nil || strings.TrimSpace(string(out)) != dir {
			t.Errorf("%v: %q, %v", spec.Argv, out, err)
		}
	}
}
