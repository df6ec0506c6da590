package tool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// desktop is one conversation's file tools on a directory of a test.
type desktop struct {
	t    *testing.T
	dir  string
	set  *Set
	call Call
	n    int
}

func newDesktop(t *testing.T, opts FilesOptions) *desktop {
	t.Helper()
	d := &desktop{t: t, dir: opts.Dir}
	if opts.Dir == "" {
		d.dir = t.TempDir()
		opts.Dir = d.dir
	}
	d.set = NewSet(NewFiles(opts).Tools()...)
	d.call = Call{Session: "a", Turn: "t", Policy: Policy{Context: "cli", Files: Allow}}
	return d
}

func (d *desktop) do(name string, a map[string]any) Result {
	d.t.Helper()
	call := d.call
	d.n++
	call.Name, call.Args, call.ID = name, args(a), string(rune('a'+d.n))
	return d.set.Run(soon(d.t), call)
}

func (d *desktop) put(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *desktop) text(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// refused wants an error that says so and an effect of none.
func (d *desktop) refused(name string, a map[string]any, says string) {
	d.t.Helper()
	if r := d.do(name, a); !r.Err || r.Effect != EffectNone || !strings.Contains(r.Content, says) {
		d.t.Errorf("%s %v: want a refusal that says %q, got %+v", name, a, says, r)
	}
}

func (d *desktop) done(name string, a map[string]any, says string) {
	d.t.Helper()
	if r := d.do(name, a); r.Err || r.Effect != EffectDone || !strings.Contains(r.Content, says) {
		d.t.Errorf("%s %v: want %q, got %+v", name, a, says, r)
	}
}

type m = map[string]any

func TestAWriteStaysBelowItsRoot(t *testing.T) {
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	for _, dir := range []string{root, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := newDesktop(t, FilesOptions{Dir: root})
	d.put("real/target.txt", "old")
	if err := os.WriteFile(filepath.Join(outside, "theirs"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, to := range map[string]string{
		"out": outside, "up": "..", "file": filepath.Join(outside, "theirs"), "new": filepath.Join(outside, "fresh"), "in": "real",
		"abs": filepath.Join(root, "real", "target.txt"), "loop": "loop", "dangling": "nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		"../outside/theirs", "out/theirs", "out/fresh", "up/outside/theirs", "file", "new", "in/../../outside/x", filepath.Join(outside, "fresh"), filepath.Join(base, "x"),
		"loop", "dangling", "~/x", "", "a\x00b", "real", ".",
	} {
		if r := d.do("write_file", m{"path": path, "content": "mine"}); !r.Err || r.Effect != EffectNone {
			t.Errorf("%q: %+v", path, r)
		}
	}
	left, err := os.ReadDir(outside)
	if text, _ := os.ReadFile(filepath.Join(outside, "theirs")); err != nil || len(left) != 1 || string(text) != "theirs" {
		t.Errorf("outside was written: %v, %q, %v", left, text, err)
	}
	d.done("write_file", m{"path": "abs", "content": "through a link that stays inside"}, "replaced 3 bytes")
	d.done("write_file", m{"path": "in/other.txt", "content": "x"}, "the file is new")
	if to, err := os.Readlink(filepath.Join(root, "abs")); err != nil || d.text("real/target.txt") != "through a link that stays inside" {
		t.Errorf("the link became %q, %v", to, err)
	}
}

func TestTheRootForWritingIsTheOnlyOne(t *testing.T) {
	root := t.TempDir()
	d := newDesktop(t, FilesOptions{WriteRoot: root})
	d.put("here.txt", "read me")
	d.refused("write_file", m{"path": "here.txt", "content": "x"}, "outside")
	d.done("write_file", m{"path": filepath.Join(root, "deep", "er", "there.txt"), "content": "x"}, "new")
	for _, path := range []string{"here.txt", filepath.Join(root, "deep/er/there.txt")} {
		if r := d.do("read_file", m{"path": path}); r.Err {
			t.Errorf("%+v", r)
		}
	}
}

func TestFilesThatAreNotForAModelAreClosed(t *testing.T) {
	home := t.TempDir()
	key := filepath.Join(t.TempDir(), "model.txt")
	d := newDesktop(t, FilesOptions{Dir: "/", Homes: []string{home}, Denied: []string{key}})
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		key, filepath.Join(home, "config.yaml"), filepath.Join(home, "workspace", "x"), "/home/x/.ssh/config", "/home/x/.env", "/home/x/.aws/credentials",
		"/srv/state.db-wal", "/srv/tls.pem", "/proc/self/environ", "/dev/null", "/sys/power/state",
	} {
		d.refused("read_file", m{"path": path}, "not read for a model")
		d.refused("write_file", m{"path": path, "content": "x"}, "nothing was written")
	}
	for _, path := range []string{
		"/etc/cron.d/x", "/etc/passwd", "/usr/bin/x", "/home/x/.bashrc", "/home/x/.zshenv", "/srv/repo/.git/hooks/post-commit", "/srv/repo/.git/config",
		"/home/x/.config/systemd/user/x.service", "/home/x/.config/autostart/x.desktop", "/home/x/.gitconfig",
	} {
		d.refused("write_file", m{"path": path, "content": "x"}, "nothing was written")
	}
	inside := newDesktop(t, FilesOptions{Dir: filepath.Join(home, "workspace"), Homes: []string{home}})
	inside.put("notes.txt", "fine")
	inside.put(".env.example", "A=")
	for _, path := range []string{"notes.txt", ".env.example"} {
		if r := inside.do("read_file", m{"path": path}); r.Err {
			t.Errorf("%+v", r)
		}
	}
	inside.done("write_file", m{"path": "notes.txt", "content": "still fine"}, "written")
	inside.refused("read_file", m{"path": "../config.yaml"}, "outside")
	atHome := newDesktop(t, FilesOptions{Dir: home, Homes: []string{home}})
	atHome.refused("write_file", m{"path": "config.yaml", "content": "x"}, "belongs to gatewayd itself")
}

func TestFilesOfAnotherUserAreLeftAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file of somebody else")
	}
	d := newDesktop(t, FilesOptions{})
	path := d.put("theirs.txt", "x")
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	d.refused("write_file", m{"path": "theirs.txt", "content": "mine"}, "another user")
}

func TestWritingNeedsPermission(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	d.call.Policy.Files = ""
	d.refused("write_file", m{"path": "x", "content": "x"}, "tools.files: allow")
	d.refused("patch", m{"path": "x", "old": "a", "new": "b"}, "tools.files: allow")
	if r := d.do("search_files", m{}); r.Err {
		t.Errorf("%+v", r)
	}
}

func TestAWriteOverSomebodyElsesChangeIsRefused(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	path := d.put("plan.txt", "first")
	read := func() { t.Helper(); d.do("read_file", m{"path": "plan.txt"}) }
	read()
	d.done("write_file", m{"path": "plan.txt", "content": "second"}, "replaced 5 bytes")
	d.done("write_file", m{"path": "plan.txt", "content": "third"}, "replaced 6 bytes") // its own change is nobody else's
	if err := os.WriteFile(path, []byte("a person was here"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.refused("write_file", m{"path": "plan.txt", "content": "fourth"}, "changed by somebody else since")
	if d.text("plan.txt") != "a person was here" {
		t.Error("it was overwritten")
	}
	d.done("patch", m{"path": "plan.txt", "old": "person", "new": "man"}, "WARNING: somebody else changed the file")
	if err := os.WriteFile(path, []byte("again"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.done("write_file", m{"path": "plan.txt", "content": "fifth", "overwrite": true}, "WARNING: 5 bytes were replaced")
	other := d.call
	other.Session = "b"
	other.Name, other.Args = "write_file", args(m{"path": "plan.txt", "content": "sixth"})
	if r := d.set.Run(soon(t), other); r.Err { // it never read the file
		t.Errorf("%+v", r)
	}
	read()
	if d.text("plan.txt") != "sixth" {
		t.Error(d.text("plan.txt"))
	}
}

func TestAWrittenFileKeepsItsMode(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	path := d.put("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	d.done("write_file", m{"path": "run.sh", "content": "#!/bin/sh\necho\n"}, "2 lines")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o751 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(d.dir); len(left) != 1 {
		t.Errorf("left beside it: %v", left)
	}
	d.refused("write_file", m{"path": "run.sh"}, "content is missing")
	d.refused("patch", m{"path": "run.sh", "old": "echo"}, "needs old and new")
	d.refused("patch", m{"path": "run.sh", "edits": []m{{"old": "echo", "new": "x"}, {"old": "sh"}}}, "needs old and new")
	d.refused("patch", m{"path": "run.sh", "old_string": "echo", "new_string": "x"}, "nothing to change")
	d.refused("write_file", m{"path": "run.sh/x", "content": ""}, "nothing was")
	d.refused("write_file", m{"path": "big", "content": strings.Repeat("x", maxWritten+1)}, "at most")
}

func TestAMarkOfASecretIsNeverWrittenOverTheSecret(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	token := "ghp_" + strings.Repeat("y", 36)
	d.put("settings.txt", "a = 1\ntoken "+token+"\nb = 2\n")
	r := d.do("read_file", m{"path": "settings.txt"})
	if strings.Contains(r.Content, token) || !strings.Contains(r.Content, "token [redacted]") {
		t.Fatalf("%+v", r)
	}
	d.refused("write_file", m{"path": "settings.txt", "content": "a = 2\ntoken [redacted]\nb = 2\n"}, "would destroy the secret")
	d.done("patch", m{"path": "settings.txt", "old": "a = 1", "new": "a = 2"}, "patched")
	if d.text("settings.txt") != "a = 2\ntoken "+token+"\nb = 2\n" {
		t.Error(d.text("settings.txt"))
	}
	d.put("code.go", "password := ask()\nsecret := \"averylongone\"\n")
	if r := d.do("read_file", m{"path": "code.go"}); strings.Contains(r.Content, "[redacted]") {
		t.Errorf("a program's text was changed: %+v", r)
	}
}

func TestSpecialFilesAreRefusedWithoutBeingOpened(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	if err := syscall.Mkfifo(filepath.Join(d.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.put("logo.png", "\x89PNG\r\n\x1a\n1234")
	d.put("tool", "\x7fELF\x00\x01")
	d.refused("read_file", m{"path": "pipe"}, "it is a pipe")
	d.refused("write_file", m{"path": "pipe", "content": "x"}, "it is a pipe")
	d.refused("patch", m{"path": "pipe", "old": "a", "new": "b"}, "it is a pipe")
	d.refused("read_file", m{"path": "logo.png"}, "image/png")
	d.refused("read_file", m{"path": "tool"}, "binary file of 6 bytes")
	d.refused("read_file", m{"path": "."}, "a directory")
	if r := d.do("search_files", m{"pattern": "."}); r.Err || !strings.Contains(r.Content, "2 files were passed over") && !strings.Contains(r.Content, "nothing was found") {
		t.Errorf("%+v", r)
	}
}

// A page that stands in the conversation is not sent again; whether it stands there is asked of the rows each time.
func TestAnUnchangedPageIsToldOnceAndOnlyWhileItIsThere(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	path := d.put("long.txt", strings.Repeat("some words in a line\n", 100))
	rows := map[[2]string]string{}
	d.call.Shown = func(turn, call string) (string, bool) { text, ok := rows[[2]string{turn, call}]; return text, ok }
	read := func() string {
		t.Helper()
		r := d.do("read_file", m{"path": "long.txt"})
		rows[[2]string{"t", string(rune('a' + d.n))}] = r.Content
		return r.Content
	}
	whole := read()
	if again := read(); !strings.Contains(again, "is unchanged since this conversation read these lines") {
		t.Errorf("%.200q", again)
	}
	if third := read(); third != whole {
		t.Errorf("who asks once more gets the text: %.200q", third)
	}
	clear(rows) // compacted, repaired away, rewound: the tool is not told
	if after := read(); after != whole {
		t.Errorf("%.200q", after)
	}
	if again := read(); !strings.Contains(again, "unchanged") {
		t.Errorf("%.200q", again)
	}
	read()
	if err := os.WriteFile(path, []byte(strings.Repeat("other words in a line\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := read(); !strings.Contains(changed, "other words") {
		t.Errorf("%.200q", changed)
	}
	d.call.Shown = nil
	if blind := read(); !strings.Contains(blind, "other words") {
		t.Errorf("%.200q", blind)
	}
}

func TestAPageFitsTheRoomOfItsCall(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	d.put("long.txt", strings.Repeat("some words in a line\n", 2_000))
	d.call.Room = 8_000
	r := d.do("read_file", m{"path": "long.txt", "limit": 2_000})
	if len(r.Content) > 8_000 || !strings.Contains(r.Content, "go on with offset") {
		t.Errorf("%d bytes, ends %.80q", len(r.Content), r.Content[max(0, len(r.Content)-80):])
	}
}

func TestOneCallAtATimeChangesAFile(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	d.put("sum.txt", strings.Repeat("x", 40))
	done := make(chan Result, 40)
	for i := range 40 {
		go func() {
			done <- d.set.Run(context.Background(), Call{
				Name: "patch", Session: string(rune('a' + i)), Policy: d.call.Policy,
				Args: args(m{"path": "sum.txt", "edits": []m{{"old": "x", "new": "yz", "replace_all": true}, {"old": "yz", "new": "x", "replace_all": true}, {"old": "x", "new": "x.", "replace_all": true}}}),
			})
		}()
	}
	failed := 0
	for range 40 {
		if r := <-done; r.Err {
			failed++
		}
	}
	if text := d.text("sum.txt"); failed != 0 || strings.Count(text, ".") != 40*40 {
		t.Errorf("%d failed, %d changes are there", failed, strings.Count(text, "."))
	}
}
