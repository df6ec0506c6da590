package kanban

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gatewayd/internal/problem"
)

func (b *Board) attachText(t *testing.T, task, name, text string) Attachment {
	t.Helper()
	a, err := b.Attach(t.Context(), task, NewAttachment{Filename: name, ContentType: "text/plain", By: "ann"}, strings.NewReader(text))
	if err != nil {
		t.Fatalf("attach %q: %v", name, err)
	}
	return a
}

func (b *Board) readAttachment(t *testing.T, id int64) string {
	t.Helper()
	_, f, err := b.OpenAttachment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestAttachmentsOfOneNameAreKeptApart(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	first, second := b.attachText(t, card.ID, "../../notes.txt", "one"), b.attachText(t, card.ID, `C:\docs\notes.txt`, "two")
	if first.Filename != "notes.txt" || second.Filename != "notes (1).txt" {
		t.Errorf("%q, %q", first.Filename, second.Filename)
	}
	if got := b.readAttachment(t, first.ID) + b.readAttachment(t, second.ID); got != "onetwo" {
		t.Errorf("read %q", got)
	}
	want := filepath.Join(filepath.Dir(b.Path()), "kanban", "attachments", card.ID, "notes.txt")
	if first.StoredPath != want || !filepath.IsAbs(want) {
		t.Errorf("stored at %s, want %s", first.StoredPath, want)
	}
	if p := b.lastPayload(t, card.ID, "attached"); p["filename"] != "notes (1).txt" || p["size"] != 3.0 || p["by"] != "ann" {
		t.Errorf("event: %v", p)
	}
	list, err := b.Attachments(t.Context(), card.ID)
	if err != nil || len(list) != 2 || list[0] != first {
		t.Errorf("%v %v", list, err)
	}
}

func TestAFileNameIsCleanedAndNeverAPath(t *testing.T) {
	long := strings.Repeat("ж", 300) + ".tar"
	for in, want := range map[string]string{
		"a.txt": "a.txt", "/etc/passwd": "passwd", `..\..\x`: "x", ".bashrc": "bashrc", "...": "", "": "", "dir/": "", "a\x00\n\x1bb": "ab",
		"r\u202egpj.exe": "rgpj.exe", "\xff\xfe": "\ufffd", " . a ": "a", "..": "", "ünïcode.pdf": "ünïcode.pdf",
	} {
		if got := cleanFilename(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	got := cleanFilename(long)
	if len(got) > maxNameBytes || !strings.HasSuffix(got, ".tar") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := cleanFilename(strings.Repeat("a", 300)); len(got) != maxFilename {
		t.Errorf("%d characters", len(got))
	}
	b := newBoard(t)
	if _, err := b.Attach(t.Context(), b.make(t, NewTask{}).ID, NewAttachment{Filename: "../.."}, strings.NewReader("x")); !problem.Is(err, problem.Invalid) {
		t.Errorf("a name with nothing in it: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAFileBeyondTheLimitLeavesNothing(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	_, err := b.Attach(t.Context(), card.ID, NewAttachment{Filename: "big"}, zeros{})
	wantErr(t, err, ErrTooLarge)
	if left, _ := filepath.Glob(filepath.Join(b.attachments, "*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	a, err := b.Attach(t.Context(), card.ID, NewAttachment{Filename: "full"}, io.LimitReader(zeros{}, MaxAttachment))
	if err != nil || a.Size != MaxAttachment {
		t.Errorf("exactly 25 MiB: %+v %v", a, err)
	}
}

func TestAFileWithoutARowGoes(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	run, stale := b.mustClaim(t, card.ID), RunID(99)
	gate := readerFunc(func(p []byte) (int, error) { // the card moves while the file arrives
		if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "done"}); err != nil {
			t.Error(err)
		}
		return 0, io.EOF
	})
	for name, a := range map[string]NewAttachment{"stale run": {Filename: "a", Run: &stale}, "moved meanwhile": {Filename: "b", Run: &run}} {
		_, err := b.Attach(t.Context(), card.ID, a, gate)
		if !errors.Is(err, ErrStaleRun) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Attach(t.Context(), "t_none", NewAttachment{Filename: "a"}, gate); !errors.Is(err, ErrNotFound) {
		t.Errorf("no card: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.attachments, "*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestOnlyFilesBelowTheBoardsAttachmentsAreGivenOut(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	a := b.attachText(t, card.ID, "a.txt", "x")
	base := filepath.Dir(b.Path())
	secret := filepath.Join(base, "secret")
	for _, err := range []error{
		os.WriteFile(secret, []byte("s"), 0o600), os.Symlink(secret, filepath.Join(b.attachments, card.ID, "link")),
		os.Symlink(base, filepath.Join(b.attachments, "up")), os.Mkdir(filepath.Join(b.attachments, card.ID, "dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := b.attachments
	for _, path := range []string{
		secret, dir, dir + "/../secret", dir + "/" + card.ID + "/link", dir + "/up/secret", dir + "/" + card.ID + "/dir", "a.txt", "", "/etc/passwd", b.Path(),
	} {
		b.sql(t, `UPDATE task_attachments SET stored_path = ? WHERE id = ?`, path, a.ID)
		if _, f, err := b.OpenAttachment(t.Context(), a.ID); err == nil {
			f.Close()
			t.Errorf("%q was opened", path)
		}
		if err := b.RemoveAttachment(t.Context(), a.ID, "ann"); err != nil {
			t.Errorf("%q: the row cannot be removed: %v", path, err)
		}
		b.sql(t, `INSERT INTO task_attachments (id, task_id, filename, stored_path, created_at) VALUES (?, ?, 'a', 'x', 1)`, a.ID, card.ID)
	}
	for _, path := range []string{secret, b.Path(), filepath.Join(dir, card.ID, "dir")} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

func TestAFileGoesWithTheLastRowThatNamesIt(t *testing.T) {
	b := newBoard(t)
	one, two := b.make(t, NewTask{}), b.make(t, NewTask{})
	a := b.attachText(t, one.ID, "shared", "x")
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'shared', ?, 1)`, two.ID, a.StoredPath)
	if err := b.RemoveAttachment(t.Context(), a.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	if !exists(a.StoredPath) {
		t.Fatal("the file went although another row names it")
	}
	list, err := b.Attachments(t.Context(), two.ID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := b.RemoveAttachment(t.Context(), list[0].ID, "ann"); err != nil {
		t.Fatal(err)
	}
	if exists(a.StoredPath) || exists(filepath.Dir(a.StoredPath)) {
		t.Error("the file or its directory is still there")
	}
	if p := b.lastPayload(t, two.ID, "attachment_removed"); p["filename"] != "shared" {
		t.Errorf("event: %v", p)
	}
	if err := b.RemoveAttachment(t.Context(), a.ID, "ann"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

// worked claims a card and gives its scratch workspace.
func (b *Board) worked(t *testing.T, card Task) (RunID, string) {
	t.Helper()
	dir := filepath.Join(b.workspaces, card.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return b.mustClaim(t, card.ID), dir
}

func TestArtifactsAreCopiedBeforeTheWorkspaceGoes(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	run, dir := b.worked(t, card)
	os.MkdirAll(filepath.Join(dir, "out"), 0o700)
	os.WriteFile(filepath.Join(dir, "report.md"), []byte("one"), 0o600)
	os.WriteFile(filepath.Join(dir, "out", "report.md"), []byte("two"), 0o600)
	err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Artifacts: []string{"report.md", filepath.Join(dir, "out", "report.md"), "report.md"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	list, err := b.Attachments(t.Context(), card.ID)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if list[1].Filename != "report_1.md" || b.readAttachment(t, list[0].ID)+b.readAttachment(t, list[1].ID) != "onetwo" {
		t.Errorf("%+v", list)
	}
	paths, _ := b.lastPayload(t, card.ID, EventCompleted)["artifacts"].([]any)
	if len(paths) != 2 || paths[0] != list[0].StoredPath {
		t.Errorf("completed event: %v", paths)
	}
	if p := b.lastPayload(t, card.ID, EventAttached); p["source"] != "out/report.md" {
		t.Errorf("attached event: %v", p)
	}
	b.invariants(t)
}

func TestAnArtifactThatCannotBeCopiedRollsTheCompletionBack(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	run, dir := b.worked(t, card)
	secret := filepath.Join(filepath.Dir(b.Path()), "secret")
	os.WriteFile(secret, []byte("s"), 0o600)
	os.WriteFile(filepath.Join(dir, "good"), []byte("g"), 0o600)
	os.Symlink(secret, filepath.Join(dir, "link"))
	big, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(MaxAttachment+1), big.Close()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"missing", "link", secret, "../../../secret", ".", "/etc/passwd", "big"} {
		err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "done", Artifacts: []string{"good", bad}})
		if !problem.Is(err, problem.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	phantom := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "done", Artifacts: []string{"good"}, CreatedCards: []string{"t_00000000"}})
	wantErr(t, phantom, ErrPhantomCards)
	b.wantStatus(t, card.ID, StatusRunning)
	if left, _ := filepath.Glob(filepath.Join(b.attachments, "*", "*")); len(left) != 0 {
		t.Errorf("copies stay: %v", left)
	}
	if list, _ := b.Attachments(t.Context(), card.ID); len(list) != 0 {
		t.Errorf("rows stay: %v", list)
	}
	if !exists(filepath.Join(dir, "good")) {
		t.Error("the workspace lost a file")
	}
}

func TestArtifactsOfADirectoryThatStaysAreNamedAndNotCopied(t *testing.T) {
	b := newBoard(t)
	dir := t.TempDir()
	card := b.make(t, NewTask{Assignee: "dev", WorkspaceKind: WorkspaceDir, WorkspacePath: dir})
	run := b.mustClaim(t, card.ID)
	os.WriteFile(filepath.Join(dir, "built"), bytes.Repeat([]byte("x"), 10), 0o600)
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Artifacts: []string{"built"}}); err != nil {
		t.Fatal(err)
	}
	paths, _ := b.lastPayload(t, card.ID, EventCompleted)["artifacts"].([]any)
	if len(paths) != 1 || paths[0] != filepath.Join(dir, "built") {
		t.Errorf("completed event: %v", paths)
	}
	if exists(b.attachments) {
		t.Error("something was copied")
	}
}

func TestADeletedCardLeavesNothingOnDisk(t *testing.T) {
	b := newBoard(t)
	card, other := b.make(t, NewTask{}), b.make(t, NewTask{})
	own, shared := b.attachText(t, card.ID, "own", "x"), b.attachText(t, card.ID, "shared", "x")
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'shared', ?, 1)`, other.ID, shared.StoredPath)
	precious := filepath.Join(t.TempDir(), "precious")
	os.WriteFile(precious, []byte("p"), 0o600)
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'x', ?, 1)`, card.ID, precious)
	dir := filepath.Join(b.workspaces, card.ID)
	os.MkdirAll(dir, 0o700)
	if _, err := b.Delete(t.Context(), card.ID); err != nil {
		t.Fatal(err)
	}
	if exists(own.StoredPath) || exists(dir) {
		t.Error("its file or its workspace stays")
	}
	if !exists(shared.StoredPath) || !exists(precious) {
		t.Error("a file of another card, or of nobody here, is gone")
	}
}
