package kanban

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// hermesRoot is a directory as Hermes leaves it, with real files where they are there.
func hermesRoot(t *testing.T, boards map[Slug]string) *Root {
	t.Helper()
	dir := t.TempDir()
	for slug, text := range boards {
		path := filepath.Join(dir, dbFile(slug))
		put(t, path, text)
		put(t, filepath.Join(dir, boardDir(slug), metaName), fmt.Sprintf(`{"slug": "%s", "name": "Über %s", "default_workdir": "/src", "colour of the sky": 7}`, slug, slug))
	}
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func put(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func emptyRoot(t *testing.T) *Root {
	t.Helper()
	root, err := OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestBoardsOfHermesAreAdoptedWhole(t *testing.T) {
	for _, slug := range []Slug{DefaultSlug, "side"} {
		for _, want := range fixtures() {
			t.Run(string(slug)+" "+want.file, func(t *testing.T) {
				from := hermesRoot(t, map[Slug]string{slug: fileBytes(t, fixture(t, want.file))})
				put(t, filepath.Join(from.dir, workDir(slug), "logs", "t_00000001.log"), "said\n")
				before := footprint(t, from.dir)
				to := emptyRoot(t)
				dry, err := to.Adopt(t.Context(), from, slug, AdoptOptions{Scratch: t.TempDir(), DryRun: true})
				if err != nil || len(footprint(t, to.dir)) != 0 {
					t.Fatalf("a dry run: %v, it made %v", err, footprint(t, to.dir))
				}
				got, err := to.Adopt(t.Context(), from, slug, AdoptOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got.Counts["tasks"] != int64(want.cards) || dry.Counts["tasks"] != int64(want.cards) || len(got.Parked) != want.running || got.Files != 1 {
					t.Errorf("%+v; the dry run said %+v", got, dry)
				}
				if after := footprint(t, from.dir); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the source was\n%v\nand is\n%v", before, after)
				}
				b := openBoard(t, Options{Path: to.DBPath(slug), Slug: slug})
				stats, err := b.Stats(t.Context())
				if err != nil || stats.ByStatus[string(StatusReady)] != want.ready || stats.ByStatus[string(StatusRunning)] != 0 || stats.ByStatus[string(StatusBlocked)] != want.blocked+want.running {
					t.Errorf("%+v, %v", stats, err)
				}
				for _, id := range got.Parked {
					if _, err := b.Claim(t.Context(), id, Claimer{Lock: "x:1"}); err == nil {
						t.Errorf("card %s, which a worker of Hermes may still work on, was started again", id)
					}
				}
				if info := to.info(slug); info.Name != "Über "+string(slug) || info.DefaultWorkdir != "/src" || fileBytes(t, filepath.Join(to.LogsDir(slug), "t_00000001.log")) != "said\n" {
					t.Errorf("%+v", info)
				}
				if !strings.Contains(fileBytes(t, to.MetaPath(slug)), `"colour of the sky": 7`) {
					t.Error("a key that nobody here knows was lost")
				}
				again, err := to.Adopt(t.Context(), from, slug, AdoptOptions{})
				if err != nil || !again.Present {
					t.Errorf("again: %+v, %v", again, err)
				}
			})
		}
	}
}

// footprint is what lies below a directory: names, times, sizes and inodes.
func footprint(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		line := fmt.Sprint(strings.TrimPrefix(path, dir), info.Size(), info.ModTime().UnixNano(), info.Mode())
		if info.Mode().IsRegular() {
			line += fileBytes(t, path)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestABoardThatIsHereIsLeftAloneWhenAnotherOfItsNameComes(t *testing.T) {
	from := hermesRoot(t, map[Slug]string{"side": fileBytes(t, writeVintage(t, vintageJ)), DefaultSlug: fileBytes(t, writeVintage(t, vintageM))})
	to := emptyRoot(t)
	for _, slug := range []Slug{"side", DefaultSlug} {
		if _, err := to.Create(slug, Meta{Name: "mine"}); err != nil {
			t.Fatal(err)
		}
		mine := openBoard(t, Options{Path: to.DBPath(slug), Slug: slug, Create: true})
		mine.make(t, NewTask{Title: "mine"})
		before := mine.dump(t)
		_, err := to.Adopt(t.Context(), from, slug, AdoptOptions{})
		if !problem.Is(err, problem.Conflict) {
			t.Errorf("board %s: %v", slug, err)
		}
		if mine.dump(t) != before || to.info(slug).Name != "mine" {
			t.Errorf("board %s was changed", slug)
		}
	}
}

func TestFilesOfCardsComeAlongAndAreFound(t *testing.T) {
	for _, slug := range []Slug{DefaultSlug, "side"} {
		path := writeVintage(t, vintageJ)
		from := hermesRoot(t, map[Slug]string{slug: ""})
		attached := filepath.Join(from.dir, workDir(slug), "attachments", "t_0000000a", "plan.txt")
		put(t, attached, "the plan")
		put(t, filepath.Join(from.dir, "outside"), "a secret")
		if err := os.Symlink(filepath.Join(from.dir, "outside"), filepath.Join(filepath.Dir(attached), "link.txt")); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.OpenBare(path)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Exec(fmt.Sprintf(`INSERT INTO task_attachments(task_id, filename, stored_path, size, created_at) VALUES('t_0000000a', 'plan.txt', '%s', 8, 1),
('t_0000000a', 'gone.txt', '/nowhere/gone.txt', 1, 1), ('t_0000000a', 'link.txt', '%s', 1, 1)`, attached, filepath.Join(filepath.Dir(attached), "link.txt")))
		if err != nil || db.Close() != nil {
			t.Fatal(err)
		}
		put(t, from.DBPath(slug), fileBytes(t, path))
		if wal := fileBytes(t, path+"-wal"); wal != "" {
			put(t, from.DBPath(slug)+"-wal", wal)
		}
		to := emptyRoot(t)
		got, err := to.Adopt(t.Context(), from, slug, AdoptOptions{})
		if err != nil || got.Files != 1 || got.Missing != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		b := openBoard(t, Options{Path: to.DBPath(slug), Slug: slug})
		list, err := b.Attachments(t.Context(), "t_0000000a")
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		_, f, err := b.OpenAttachment(t.Context(), list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func TestADamagedBoardOfHermesIsNotAdopted(t *testing.T) {
	for _, name := range []string{"kanban_0170_torn.db", "kanban_0170_tls.db"} {
		from := hermesRoot(t, map[Slug]string{"side": fileBytes(t, fixture(t, name))})
		to := emptyRoot(t)
		if got, err := to.Adopt(t.Context(), from, "side", AdoptOptions{}); err == nil || to.exists("side") {
			t.Errorf("%s was adopted: %+v, %v", name, got, err)
		} else {
			t.Log(err)
		}
	}
}
