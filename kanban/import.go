package kanban

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// ImportOptions say what an imported board is called and how large it may be.
type ImportOptions struct {
	Slug Slug   // "" = the archive's
	Name string // "" = the archive's
	Max  int64  // bytes, unpacked; 0 = DefaultImportMax
}

// Imported says what came of an import.
type Imported struct {
	Board   Info             `json:"board"`
	From    string           `json:"from"`              // the board's slug where it was exported
	Counts  map[string]int64 `json:"counts"`            // rows by table
	Parked  []string         `json:"parked,omitempty"`  // cards that went to triage: their workspace was on the other machine
	Dropped int              `json:"dropped,omitempty"` // attachments without a file in the archive
	Skipped int              `json:"skipped,omitempty"` // files that no board has
}

// Import makes a new board of an exported one, whatever boards there are: a taken slug gets a number. An archive may have
// been made by anybody, so every name and size in it is checked, its database is verified and may hold no programs, and nothing
// in it that speaks of another machine is believed. A broken archive, and an import that is cut off, leave nothing that
// anybody would list.
func (r *Root) Import(ctx context.Context, archive io.Reader, o ImportOptions) (Imported, error) {
	boards := filepath.Join(r.dir, "kanban", "boards")
	stage, err := r.stage(boards)
	if err != nil {
		return Imported{}, err
	}
	defer stage.drop()
	in := importer{root: r, stage: stage, options: o}
	err = in.unpack(archive)
	if err == nil {
		err = in.rebuild(ctx)
	}
	if err == nil {
		err = in.place()
	}
	if err != nil {
		return Imported{}, notImported(err)
	}
	return in.done, nil
}

func notImported(err error) error {
	const fate = "nothing was imported"
	if bad, ok := errors.AsType[archiveError](err); ok {
		return &problem.Error{Kind: problem.Invalid, Thing: "the archive", What: bad.what, Fate: fate, Remedy: "export the board again, and compare the copies"}
	}
	return diskProblem("the archive", "cannot be imported", fate, err)
}

// importer makes the board in <stage>/board, which gets its name at the end.
type importer struct {
	root    *Root
	stage   *staging
	options ImportOptions
	from    unpacker
	slug    Slug
	done    Imported
}

func (in *importer) at(names ...string) string {
	return filepath.Join(append([]string{in.stage.path}, names...)...)
}

func (in *importer) unpack(archive io.Reader) error {
	if err := os.Mkdir(in.at("board"), dirMode); err != nil {
		return err
	}
	to, err := os.OpenRoot(in.at("board"))
	if err != nil {
		return err
	}
	defer to.Close()
	in.from = unpacker{to: to, left: cmp.Or(in.options.Max, DefaultImportMax), seen: map[string]bool{}}
	if err := in.from.unpack(archive); err != nil {
		return err
	}
	in.done.From, in.done.Skipped = in.from.manifest.Board, in.from.skipped
	return os.Rename(in.at("board", fileNameDB), in.at(rawName))
}

// rebuild checks the database, takes out what is about another machine, and writes it anew.
func (in *importer) rebuild(ctx context.Context) (err error) {
	if err := sqlite.Sealed(in.at(rawName), in.checkPrograms); err != nil {
		return unsound(err)
	}
	if in.slug, err = in.root.freeSlug(in.wanted()); err != nil {
		return err
	}
	b, err := Open(ctx, Options{Path: in.at(rawName), Slug: in.slug})
	if err != nil {
		return badArchive("has a database that cannot be used: %v", err)
	}
	defer b.Close()
	if err := b.write(ctx, "import board", func(t *txn) error { return in.rewrite(t) }); err != nil {
		return err
	}
	if in.done.Counts, err = b.count(ctx); err != nil {
		return err
	}
	return b.file.Snapshot(ctx, in.at("board", fileNameDB), counted...)
}

// unsound tells a file that is no database from a disk that cannot be read.
func unsound(err error) error {
	if class := sqlite.ClassOf(err); class == sqlite.NotADatabase || class == sqlite.Corrupt {
		return badArchive("has a %s that is no sound database: %v", fileNameDB, err)
	}
	return err
}

// checkPrograms verifies the file before anything is run on it. No board has triggers or views, and those of a stranger
// would run with our first write.
func (in *importer) checkPrograms(c *sqlite.Conn) error {
	var first string
	for row, err := range c.Query("PRAGMA integrity_check") {
		if err != nil {
			return unsound(err)
		}
		if text := row.Text(0); text != "ok" {
			return badArchive("has a damaged %s: %s", fileNameDB, sqlite.Fault(text))
		}
	}
	there, err := c.Row(selectPrograms, nil, &first)
	if err != nil {
		return unsound(err)
	}
	if there {
		return badArchive("has a database with a program in it: %s", quote(first))
	}
	return nil
}

// wanted is the slug that the import would like.
func (in *importer) wanted() string {
	if in.options.Slug != "" {
		return string(in.options.Slug)
	}
	for _, name := range []string{in.from.manifest.Board, in.from.top} {
		if slug, err := ParseSlug(name); err == nil {
			return string(slug)
		}
	}
	return "imported"
}

// freeSlug gives a slug that no board has: as it is, or with the first number from 2 on that makes it free.
func (r *Root) freeSlug(wanted string) (Slug, error) {
	for n := 1; n < mostCollisions; n++ {
		name := wanted
		if n > 1 {
			tail := "-" + strconv.Itoa(n)
			name = wanted[:min(len(wanted), maxSlug-len(tail))] + tail
		}
		slug, err := ParseSlug(name)
		if err != nil {
			return "", err
		}
		if !r.exists(slug) {
			return slug, nil
		}
	}
	return "", &problem.Error{Kind: problem.Conflict, Thing: "board name " + quote(wanted), What: "is taken too often", Fate: unchanged, Remedy: "give the board another name"}
}

const (
	forgetPlaces   = `UPDATE tasks SET workspace_path = NULL, branch_name = NULL`
	selectHomeless = `SELECT id FROM tasks WHERE workspace_kind IN ('dir', 'worktree') AND status IN ('todo', 'scheduled', 'ready', 'review') ORDER BY id`
	parkCard       = `UPDATE tasks SET status = 'triage' WHERE id = ?`
	selectAllIDs   = `SELECT id FROM tasks ORDER BY id`
	movePath       = `UPDATE task_attachments SET stored_path = ?, size = ? WHERE id = ?`
)

// rewrite makes the rows those of a board of this root.
func (in *importer) rewrite(t *txn) error {
	in.done.Parked, in.done.Dropped = nil, 0
	if err := t.scrub(); err != nil {
		return err
	}
	if _, err := t.run("forget places", forgetPlaces); err != nil {
		return err
	}
	parked, err := texts(t.Conn, selectHomeless)
	if err != nil {
		return err
	}
	in.done.Parked = parked
	for _, id := range parked {
		if err := t.must("park card", parkCard, id); err != nil {
			return err
		}
	}
	if err := in.repoint(t); err != nil {
		return err
	}
	return in.tell(t)
}

// tell writes into each card's history where it comes from.
func (in *importer) tell(t *txn) error {
	ids, err := texts(t.Conn, selectAllIDs)
	if err != nil {
		return err
	}
	parked := map[string]bool{}
	for _, id := range in.done.Parked {
		parked[id] = true
	}
	for _, id := range ids {
		if err := t.event(id, 0, "imported", payload{{"board", string(in.slug)}, {"parked", parked[id]}}); err != nil {
			return err
		}
	}
	return nil
}

// repoint gives each attachment the place of its file below this board, or drops the row. Where the file was on the other
// machine says nothing but its name.
func (in *importer) repoint(t *txn) error {
	rows, err := collect(t.Conn, func(row *sqlite.Row) storedFile { return storedFile{row.Int(0), row.Text(1), row.Text(2)} }, selectAllAttachments)
	if err != nil {
		return err
	}
	for _, row := range rows {
		base := filepath.Base(strings.ReplaceAll(row.path, `\`, "/"))
		name := filepath.Join("attachments", fileName(row.task), base)
		st, err := os.Lstat(in.at("board", name))
		if err != nil || !st.Mode().IsRegular() || !in.from.seen[filepath.ToSlash(name)] {
			in.done.Dropped++
			if err := t.must("drop attachment", deleteAttachment, row.id); err != nil {
				return err
			}
			continue
		}
		path := filepath.Join(in.root.dir, workDir(in.slug), name)
		if err := t.must("move attachment", movePath, path, st.Size(), row.id); err != nil {
			return err
		}
	}
	return nil
}

// place describes the board and gives it its name. Somebody else may have taken the slug meanwhile.
func (in *importer) place() error {
	if err := in.describe(); err != nil {
		return err
	}
	for _, dir := range []string{in.at("board"), in.stage.path} {
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	boards := filepath.Join("kanban", "boards")
	err := in.root.fs.Rename(filepath.Join(boards, in.stage.name, "board"), boardDir(in.slug))
	if errors.Is(err, fs.ErrExist) {
		return &problem.Error{
			Kind: problem.Busy, Thing: "board name " + string(in.slug), What: "was taken by another board just now", Fate: "nothing was imported", Remedy: "import it again",
		}
	}
	if err == nil {
		err = in.root.syncDir(boards)
	}
	if err != nil {
		return err
	}
	in.done.Board = in.root.info(in.slug)
	return nil
}

func (in *importer) describe() error {
	doc := in.from.meta
	if doc == nil {
		doc = newBoardDoc(in.slug, in.from.manifest.ExportedAt)
		doc.apply(MetaChange{Name: opt(in.from.manifest.Name)})
	}
	doc.apply(MetaChange{Name: opt(in.options.Name), DefaultWorkdir: new(""), ProjectID: new(""), Archived: new(bool)})
	text, err := doc.text(in.slug)
	if err != nil {
		return fmt.Errorf("describe board: %w", err)
	}
	return writeSyncedFile(in.at("board", metaName), text)
}

func writeSyncedFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncPath(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
