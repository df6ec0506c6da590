package kanban

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func newRoot(t *testing.T) *Root {
	t.Helper()
	r, err := OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *Root) put(t *testing.T, name, text string) {
	t.Helper()
	full := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func slugs(t *testing.T, r *Root) string {
	t.Helper()
	infos, err := r.Boards()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range infos {
		names = append(names, string(i.Slug))
	}
	return strings.Join(names, " ")
}

func TestMissingRootIsNotCreated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	if _, err := OpenRoot(dir); !problem.Is(err, problem.NotFound) {
		t.Errorf("OpenRoot of nothing: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("OpenRoot made the directory")
	}
}

func TestBoardsListDefaultFirstAndSkipWhatIsNone(t *testing.T) {
	r := newRoot(t)
	if got := slugs(t, r); got != "default" {
		t.Errorf("boards of an empty root: %s", got)
	}
	r.put(t, "kanban/boards/zeta/board.json", "{}")
	r.put(t, "kanban/boards/alpha/kanban.db", "")
	r.put(t, "kanban/boards/empty/notes.txt", "")
	r.put(t, "kanban/boards/_archived/old-1/board.json", "{}")
	r.put(t, "kanban/boards/Bad Name/board.json", "{}")
	r.put(t, "kanban/boards/file", "not a directory")
	r.put(t, "kanban/boards/default/board.json", `{"name": "Mine"}`)
	if got := slugs(t, r); got != "default alpha zeta" {
		t.Errorf("boards: %s", got)
	}
	r.put(t, "kanban/boards/beta/board.json", `{"archived": true}`)
	if got := slugs(t, r); got != "default alpha zeta" {
		t.Errorf("an archived board is listed: %s", got)
	}
	if all, err := r.AllBoards(); err != nil || len(all) != 4 || all[2].Slug != "beta" {
		t.Errorf("all boards: %+v, %v", all, err)
	}
	if info, err := r.Lookup("default"); err != nil || info.Name != "Mine" || info.Path != filepath.Join(r.dir, "kanban.db") {
		t.Errorf("default board: %+v, %v", info, err)
	}
}

func TestLookupOfMissingBoardSaysHowToCreateIt(t *testing.T) {
	r := newRoot(t)
	_, err := r.Lookup("nope")
	if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "gatewayd kanban boards create nope") {
		t.Errorf("lookup: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "kanban")); err == nil {
		t.Error("looking made a directory")
	}
	for _, slug := range []Slug{"../x", "", "A B"} {
		if _, err := r.Lookup(slug); !problem.Is(err, problem.Invalid) {
			t.Errorf("lookup %q: %v", slug, err)
		}
		if _, err := r.Create(slug, Meta{}); !problem.Is(err, problem.Invalid) {
			t.Errorf("create %q: %v", slug, err)
		}
		if err := r.SetCurrent(slug); !problem.Is(err, problem.Invalid) {
			t.Errorf("set current %q: %v", slug, err)
		}
	}
}

func TestCreateIsExplicitAndOnce(t *testing.T) {
	r := newRoot(t)
	info, err := r.Create(" Ops ", Meta{Name: "Ops ✓", DefaultWorkdir: "/srv"})
	if err != nil || info.Slug != "ops" || info.Name != "Ops ✓" || info.DefaultWorkdir != "/srv" || info.CreatedAt == 0 || info.HasFile {
		t.Fatalf("create: %+v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "kanban/boards/ops/board.json"))
	if err != nil || !strings.HasPrefix(string(text), "{\n  \"slug\": \"ops\",\n  \"name\": \"Ops ✓\"") || !strings.HasSuffix(string(text), "\n}\n") {
		t.Errorf("board.json: %s, %v", text, err)
	}
	entries, _ := os.ReadDir(filepath.Join(r.dir, "kanban/boards/ops"))
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	openBoard(t, Options{Path: info.Path, Slug: "ops", Create: true})
	if _, err := r.Create("ops", Meta{}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "exists already; it was left as it is") {
		t.Errorf("second create: %v", err)
	}
}

func TestUpdateKeepsUnknownKeys(t *testing.T) {
	r := newRoot(t)
	r.put(t, "kanban/boards/b/board.json", "\ufeff"+`{"zz_pause": {"by": "me", "n": 12345678901234567890}, "slug": "wrong", "name": "Old", "icon": "★",`+
		`"default_workdir": "/a", "db_path": "/elsewhere", "archived": false, "description": "kept"}`)
	empty, name := "", "New"
	info, err := r.Update("b", MetaChange{Name: &name, DefaultWorkdir: &empty})
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "New" || info.Icon != "★" || info.DefaultWorkdir != "" || info.Description != "kept" {
		t.Errorf("info: %+v", info)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "kanban/boards/b/board.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m["slug"] != "b" || m["default_workdir"] != nil || m["icon"] != "★" {
		t.Errorf("board.json: %s", text)
	}
	if _, ok := m["db_path"]; ok {
		t.Error("db_path was stored")
	}
	if !strings.Contains(string(text), "12345678901234567890") || !strings.HasPrefix(string(text), "{\n  \"zz_pause\"") {
		t.Errorf("an unknown key did not survive as it was: %s", text)
	}
}

func TestBrokenBoardJSONIsNoError(t *testing.T) {
	r := newRoot(t)
	for name, text := range map[string]string{"half": `{"name": "x`, "list": `[1]`, "types": `{"name": 7, "created_at": "x", "icon": "i"}`, "empty": ""} {
		r.put(t, "kanban/boards/"+name+"/board.json", text)
		info, err := r.Lookup(Slug(name))
		if err != nil || info.Name != Slug(name).title() {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if (info.Trouble == "") != (name == "types") {
			t.Errorf("%s: trouble %q", name, info.Trouble)
		}
	}
	// A file that cannot be understood is not overwritten either.
	name := "N"
	if _, err := r.Update("half", MetaChange{Name: &name}); !problem.Is(err, problem.Damaged) {
		t.Errorf("update of a board.json that cannot be read: %v", err)
	}
	if _, err := r.Create("half", Meta{Name: name}); !problem.Is(err, problem.Damaged) {
		t.Errorf("create over a board.json that cannot be read: %v", err)
	}
	if text := fileBytes(t, filepath.Join(r.dir, "kanban/boards/half/board.json")); text != `{"name": "x` {
		t.Errorf("a board.json that cannot be read was overwritten: %s", text)
	}
}

func TestCurrentBoard(t *testing.T) {
	r := newRoot(t)
	if got := r.Current(); got != DefaultSlug {
		t.Errorf("current of an empty root: %s", got)
	}
	if _, err := r.Create("work", Meta{}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetCurrent("work"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(r.dir, "kanban/current")); string(text) != "work\n" {
		t.Errorf("pointer: %q", text)
	}
	for text, want := range map[string]Slug{"\ufeff work \r\n": "work", "gone": "default", "../work": "default", "": "default", "WORK": "work"} {
		r.put(t, "kanban/current", text)
		if got := r.Current(); got != want {
			t.Errorf("current with %q is %s, want %s", text, got, want)
		}
	}
	if err := r.SetCurrent("gone"); !problem.Is(err, problem.NotFound) {
		t.Errorf("set current to nothing: %v", err)
	}
}

func TestALinkDoesNotLeadOutOfTheRoot(t *testing.T) {
	r, outside := newRoot(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "board.json"), []byte(`{"name": "Secret"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "kanban/boards"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(r.dir, "kanban/boards/out")); err != nil {
		t.Fatal(err)
	}
	info, err := r.Lookup("out")
	if err == nil && (info.Name == "Secret" || info.Trouble == "") {
		t.Errorf("a link out of the root was followed: %+v", info)
	}
	name := "Mine"
	if _, err := r.Update("out", MetaChange{Name: &name}); err == nil {
		t.Error("update followed a link out of the root")
	}
	if text, _ := os.ReadFile(filepath.Join(outside, "board.json")); string(text) != `{"name": "Secret"}` {
		t.Errorf("outside was written: %s", text)
	}
}

func TestPathsOfCardsStayInTheirDirectory(t *testing.T) {
	r := newRoot(t)
	for _, id := range []string{"../../x", "..", "", "a/b", `a\b`, ".hidden", "t_1"} {
		for _, p := range []string{r.LogPath("b", id), r.WorkspaceDir("b", id)} {
			if filepath.Dir(filepath.Dir(p)) != filepath.Join(r.dir, "kanban/boards/b") {
				t.Errorf("card %q leads to %s", id, p)
			}
		}
	}
	if got := r.LogPath(DefaultSlug, "t_1"); got != filepath.Join(r.dir, "kanban/logs/t_1.log") {
		t.Errorf("log of the default board: %s", got)
	}
}
