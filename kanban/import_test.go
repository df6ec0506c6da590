package kanban

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

func (y yard) export(slug Slug, o ExportOptions) []byte {
	y.t.Helper()
	b, release, err := y.open(y.t.Context(), slug)
	if err != nil {
		y.t.Fatal(err)
	}
	defer release()
	var out bytes.Buffer
	if _, err := y.Export(y.t.Context(), b, &out, o); err != nil {
		y.t.Fatal(err)
	}
	return out.Bytes()
}

func wholeBoard() ExportOptions {
	return ExportOptions{Includes: Includes{true, true}, Version: "test"}
}

// entries takes an archive apart.
func entries(t *testing.T, archive []byte) (headers []tar.Header, content map[string][]byte) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	in, content := tar.NewReader(zip), map[string][]byte{}
	for {
		h, err := in.Next()
		if err == io.EOF {
			return headers, content
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, *h)
		if content[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// packed makes an archive of entries as they are.
func packed(t *testing.T, headers []tar.Header, content map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content[h.Name]))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content[h.Name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestABoardComesBackAsANewOneWithoutItsMachine(t *testing.T) {
	y := newYard(t)
	card := y.board("plans")
	b, release, err := y.open(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	tree := b.make(t, NewTask{Title: "tree", WorkspaceKind: WorkspaceWorktree, WorkspacePath: "/srv/src/wt", BranchName: "wt/x"})
	done := b.make(t, NewTask{Title: "done", WorkspaceKind: WorkspaceDir, WorkspacePath: "/srv/dir"})
	b.mustClaim(t, card)
	if err := b.Complete(t.Context(), done.ID, Completion{Summary: "well"}); err != nil {
		t.Fatal(err)
	}
	b.sql(t, `INSERT INTO kanban_notify_subs (task_id, platform, chat_id, created_at) VALUES (?, 'x', 'secret-chat', 1)`, card)
	b.sql(t, `UPDATE tasks SET session_id = 's', project_id = 'p', consecutive_failures = 1 WHERE id = ?`, card)
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, created_at) VALUES (?, 'gone', '/etc/passwd', 1)`, card)
	release()
	os.MkdirAll(y.LogsDir("plans"), 0o700)
	os.WriteFile(y.LogPath("plans", card), []byte("worked"), 0o600)

	archive := y.export("plans", wholeBoard())
	headers, content := entries(t, archive)
	var names []string
	for _, h := range headers {
		names = append(names, h.Name)
	}
	want := []string{"plans/manifest.json", "plans/board.json", "plans/kanban.db", "plans/attachments/" + card + "/note.txt", "plans/logs/" + card + ".log"}
	if !slices.Equal(names, want) {
		t.Errorf("entries %v, want %v", names, want)
	}
	for name, secret := range map[string]string{"plans/kanban.db": "secret-chat", "plans/board.json": "/srv/src"} {
		if bytes.Contains(content[name], []byte(secret)) {
			t.Errorf("%s tells %s", name, secret)
		}
	}
	for _, part := range []string{`"format": "hermes-kanban-board"`, `"format_version": 1`, `"board_name": "Plans"`, `"tasks": 3`} {
		if !bytes.Contains(content["plans/manifest.json"], []byte(part)) {
			t.Errorf("manifest without %s: %s", part, content["plans/manifest.json"])
		}
	}

	in, err := y.Import(t.Context(), bytes.NewReader(archive), ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if in.Board.Slug != "plans-2" || in.Board.Name != "Plans" || in.Board.DefaultWorkdir != "" || in.Dropped != 1 || !slices.Equal(in.Parked, []string{tree.ID}) {
		t.Errorf("%+v", in)
	}
	n, release, err := y.open(t.Context(), "plans-2")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	n.wantStatus(t, card, StatusReady)
	n.wantStatus(t, tree.ID, StatusTriage)
	n.wantStatus(t, done.ID, StatusDone)
	got := n.get(t, card)
	if got.ClaimLock != "" || got.CurrentRunID != 0 || got.SessionID != "" || got.ProjectID != "" || got.ConsecutiveFailures != 0 || n.get(t, tree.ID).WorkspacePath != "" || n.get(t, tree.ID).BranchName != "" {
		t.Errorf("%+v", got)
	}
	if runs := n.runs(t, card); len(runs) != 1 || runs[0].Status != "released" || runs[0].Outcome != OutcomeReclaimed || runs[0].Open() {
		t.Errorf("%+v", runs)
	}
	files, err := n.Attachments(t.Context(), card)
	if err != nil || len(files) != 1 || n.readAttachment(t, files[0].ID) != "kept" || !strings.HasPrefix(files[0].StoredPath, y.AttachmentsDir("plans-2")) {
		t.Errorf("%+v %v", files, err)
	}
	if p := n.lastPayload(t, tree.ID, "imported"); p["board"] != "plans-2" || p["parked"] != true {
		t.Errorf("%v", p)
	}
	if n.scalar(t, `PRAGMA integrity_check`) != "ok" || n.scalar(t, `SELECT count(*) FROM kanban_notify_subs`) != "0" {
		t.Error("the imported file is not sound, or keeps subscriptions")
	}
	n.invariants(t)
	third, err := y.Import(t.Context(), bytes.NewReader(archive), ImportOptions{Slug: "other", Name: "Other"})
	if err != nil || third.Board.Slug != "other" || third.Board.Name != "Other" {
		t.Errorf("%+v %v", third, err)
	}
}

func TestAnArchiveMayLeaveFilesAndLogsOut(t *testing.T) {
	y := newYard(t)
	y.board("plans")
	headers, _ := entries(t, y.export("plans", ExportOptions{}))
	if len(headers) != 3 {
		t.Errorf("%d entries", len(headers))
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	b, release, err := y.open(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, _, err := y.WriteExport(t.Context(), b, path, wholeBoard()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := y.WriteExport(t.Context(), b, path, wholeBoard()); !problem.Is(err, problem.Conflict) {
		t.Errorf("written over: %v", err)
	}
}

// Everything that an archive can be made to say must leave the root as it was.
func TestAHostileArchiveLeavesNothingBehind(t *testing.T) {
	y := newYard(t)
	card := y.board("plans")
	headers, content := entries(t, y.export("plans", wholeBoard()))
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600} }
	with := func(more ...tar.Header) []byte {
		c := map[string][]byte{}
		for k, v := range content {
			c[k] = v
		}
		for _, h := range more {
			if _, ok := c[h.Name]; !ok {
				c[h.Name] = []byte("x")
			}
		}
		return packed(t, append(slices.Clone(headers), more...), c)
	}
	replaced := func(name string, text []byte) []byte {
		c := map[string][]byte{}
		for k, v := range content {
			c[k] = v
		}
		c["plans/"+name] = text
		return packed(t, headers, c)
	}
	without := func(name string) []byte {
		return packed(t, slices.DeleteFunc(slices.Clone(headers), func(h tar.Header) bool { return h.Name == "plans/"+name }), content)
	}
	link := func(kind byte, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: "plans/attachments/" + card + "/l", Linkname: to, Mode: 0o777}
	}
	whole := packed(t, headers, content)
	evil := filepath.Join(t.TempDir(), "kanban.db")
	if err := os.WriteFile(evil, content["plans/kanban.db"], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.OpenBare(evil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(`CREATE TRIGGER spy AFTER UPDATE ON tasks BEGIN DELETE FROM task_events; END; PRAGMA journal_mode = DELETE`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	programs, _ := os.ReadFile(evil)
	damaged := bytes.Clone(content["plans/kanban.db"])
	for i := 4096; i < len(damaged) && i < 20000; i++ {
		damaged[i] ^= 0x5a
	}

	for name, archive := range map[string][]byte{
		"empty": {}, "no gzip": []byte("hello"), "cut off": whole[:len(whole)/2], "without its end": whole[:len(whole)-4],
		"dot dot": with(file("plans/../../../../evil")), "dot dot inside": with(file("plans/attachments/../../evil")), "absolute": with(file("/tmp/evil-" + card)),
		"backslash": with(file(`plans/attachments/..\..\evil`)), "dot": with(file("plans/./x")), "two tops": with(file("other/x")), "top alone": with(file("x")),
		"symlink": with(link(tar.TypeSymlink, "/etc")), "hard link": with(link(tar.TypeLink, "plans/kanban.db")), "fifo": with(link(tar.TypeFifo, "")),
		"device": with(link(tar.TypeChar, "")), "twice": with(file("plans/kanban.db")),
		"no manifest": without("manifest.json"), "no database": without("kanban.db"),
		"other format": replaced("manifest.json", []byte(`{"format":"zip","format_version":1}`)), "later version": replaced("manifest.json", []byte(`{"format":"hermes-kanban-board","format_version":2}`)),
		"manifest no JSON": replaced("manifest.json", []byte(`{`)), "board.json no JSON": replaced("board.json", []byte(`[`)), "large manifest": replaced("manifest.json", make([]byte, maxSmall+1)),
		"no database file": replaced("kanban.db", []byte(strings.Repeat("no database ", 500))), "empty database": replaced("kanban.db", nil),
		"a program": replaced("kanban.db", programs), "damaged database": replaced("kanban.db", damaged),
	} {
		before := tree(t, filepath.Dir(y.Dir()))
		_, err := y.Import(t.Context(), bytes.NewReader(archive), ImportOptions{})
		if !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "nothing was imported") {
			t.Errorf("%s: %v", name, err)
		}
		if after := tree(t, filepath.Dir(y.Dir())); after != before {
			t.Errorf("%s left something behind:\n%s\nbefore:\n%s", name, after, before)
		}
	}
	if exists("/tmp/evil-" + card) {
		t.Error("an absolute name was written")
	}
}

func TestABombIsRefusedBeforeItFillsTheDisk(t *testing.T) {
	y := newYard(t)
	y.board("plans")
	headers, content := entries(t, y.export("plans", ExportOptions{}))
	content["plans/logs/t_1.log"] = make([]byte, 8<<20) // packs to a few kilobytes
	bomb := packed(t, append(headers, tar.Header{Typeflag: tar.TypeReg, Name: "plans/logs/t_1.log", Mode: 0o600}), content)
	if len(bomb) > 1<<20 {
		t.Fatalf("%d bytes packed", len(bomb))
	}
	if _, err := y.Import(t.Context(), bytes.NewReader(bomb), ImportOptions{Max: 4 << 20}); !problem.Is(err, problem.Invalid) {
		t.Errorf("%v", err)
	}
	if _, err := y.Import(t.Context(), bytes.NewReader(bomb), ImportOptions{}); err != nil {
		t.Errorf("within the bound: %v", err)
	}
}

// tree lists everything below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}
