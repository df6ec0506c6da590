package kanban

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// AdoptOptions say how a board comes over from the directory of the Python original.
type AdoptOptions struct {
	Scratch string // directory for a private copy of its file; "" = the system's
	DryRun  bool   // count, and write nothing at either place
}

// Adopted says what came of one board.
type Adopted struct {
	Board   Slug             `json:"board"`
	Present bool             `json:"present,omitempty"` // it was brought from there before
	Counts  map[string]int64 `json:"counts,omitempty"`  // rows by table
	Parked  []string         `json:"parked,omitempty"`  // cards whose worker was under way there: they are blocked until somebody looked
	Files   int              `json:"files"`             // attachments and logs
	Missing int              `json:"missing,omitempty"` // attachments without a file there
	Subs    int64            `json:"subscriptions,omitempty"`
}

const (
	adoptedFrom = "imported_from" // key of board.json
	adoptedAt   = "imported_at"
)

// Adopt copies a board of another root, which is only read, also while Hermes works on it. A board whose name is here is a
// Conflict and left alone, unless it came from there: then there is nothing to do. Cards, runs, comments, events and links
// stay as they are, with places on this machine and the conversations they came from. What is only true of the host that
// they leave ends: claims, open runs, scratch directories, subscriptions of chats. A card whose worker was under way is
// blocked, because two workers on one task do more harm than one that waits. Killed at any moment, it can be done again.
func (r *Root) Adopt(ctx context.Context, from *Root, slug Slug, o AdoptOptions) (Adopted, error) {
	a := adopter{importer: importer{root: r, slug: slug}, from: from, out: Adopted{Board: slug}}
	if present, err := a.admit(); err != nil || present {
		a.out.Present = present
		return a.out, err
	}
	borrowed, err := sqlite.Borrow(ctx, sqlite.BorrowOptions{Path: from.DBPath(slug), Label: "Hermes " + BoardLabel(slug), Scratch: o.Scratch})
	if err != nil {
		return a.out, err
	}
	defer borrowed.Close()
	if o.DryRun {
		return a.out, a.look(ctx, borrowed)
	}
	return a.out, a.adopt(ctx, borrowed)
}

type adopter struct {
	importer
	from *Root
	out  Adopted
}

// admit looks whether the name is free here. A root that is not there yet has room for every board.
func (a *adopter) admit() (present bool, err error) {
	if a.root == nil {
		return false, nil
	}
	doc, err := a.root.readDoc(a.slug)
	if err == nil && a.root.info(a.slug).HasFile && doc.came(a.from.DBPath(a.slug)) {
		return true, nil
	}
	path := a.root.DBPath(a.slug)
	err = sqlite.Vacant(path, BoardLabel(a.slug))
	taken := problem.Is(err, problem.Conflict) || a.slug != DefaultSlug && a.root.exists(a.slug)
	if taken && !mutation.On("adopted-board-replaces-another") {
		return false, &problem.Error{
			Kind: problem.Conflict, Thing: boardThing(a.slug, path), What: "is here already", Fate: "it was left alone, and the other one was not brought",
			Remedy: "export that one (hermes kanban boards export), then `gatewayd kanban boards import` it under another name",
		}
	}
	if problem.Is(err, problem.Conflict) {
		return false, nil
	}
	return false, err
}

// came reports a board that was brought from a place.
func (d *boardDoc) came(path string) bool {
	raw, ok := d.values[adoptedFrom]
	return ok && string(raw) == string(appendJSONString(nil, path))
}

const countRunning = `SELECT id FROM tasks WHERE status = 'running' ORDER BY id`

// look counts what would come.
func (a *adopter) look(ctx context.Context, borrowed *sqlite.Borrowed) error {
	a.out.Counts = map[string]int64{}
	err := borrowed.Read(ctx, func(c *sqlite.Conn) (err error) {
		if err := a.checkPrograms(c); err != nil {
			return err
		}
		l, err := readLayout(c)
		if err == nil && l.foreign() != "" {
			err = foreignBoard(a.slug, a.from.DBPath(a.slug), l.foreign())
		}
		for _, name := range append([]string{"task_attachments"}, counted...) {
			if err != nil || l.types[name] == nil {
				continue
			}
			var n int64
			_, err = c.Row("SELECT count(*) FROM "+name, nil, &n)
			a.out.Counts[strings.TrimPrefix(name, "task_")] = n
		}
		if err == nil {
			a.out.Parked, err = texts(c, countRunning)
		}
		return err
	})
	return a.notAdopted(err)
}

func (a *adopter) adopt(ctx context.Context, borrowed *sqlite.Borrowed) error {
	stage, err := a.root.stage(filepath.Join(a.root.dir, "kanban", "boards"))
	if err != nil {
		return err
	}
	defer stage.drop()
	a.stage = stage
	a.importer.from.seen = map[string]bool{}
	err = os.Mkdir(a.at("board"), dirMode)
	for _, step := range []func() error{
		func() error { return borrowed.Copy(ctx, a.at(rawName)) },
		func() error { return a.fetch(ctx) },
		func() error { return a.renew(ctx) },
		a.describeAdopted,
		a.settle,
	} {
		if err == nil {
			err = step()
		}
	}
	return a.notAdopted(err)
}

func (a *adopter) notAdopted(err error) error {
	if bad, ok := errors.AsType[archiveError](err); ok {
		return &problem.Error{
			Kind: problem.Damaged, Thing: "Hermes " + boardThing(a.slug, a.from.DBPath(a.slug)), What: bad.what, Fate: "nothing of it was brought; it was left as it is",
			Remedy: "repair a copy of it, put that in its place, and import again",
		}
	}
	if err == nil {
		return nil
	}
	return diskProblem(boardThing(a.slug, a.from.DBPath(a.slug)), "cannot be brought", "nothing of it was brought", err)
}

// fetch copies the files of cards and the logs. Links are not followed, and what is no file of a card stays there.
func (a *adopter) fetch(ctx context.Context) error {
	for _, sub := range []string{"attachments", "logs"} {
		dir, err := enclosure.Open(filepath.Join(a.from.dir, workDir(a.slug), sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(a.fetchBelow(ctx, dir.Root(), sub), dir.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *adopter) fetchBelow(ctx context.Context, src *os.Root, sub string) error {
	to, err := os.OpenRoot(a.at("board"))
	if err != nil {
		return err
	}
	defer to.Close()
	return fs.WalkDir(src.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		under := sub + "/" + name
		if err != nil || !e.Type().IsRegular() || bound(under) == 0 {
			return err
		}
		if err := a.fetchFile(src, to, name, under); err != nil {
			return err
		}
		a.importer.from.seen[under] = true
		a.out.Files++
		return nil
	})
}

func (a *adopter) fetchFile(src, to *os.Root, name, under string) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.MkdirAll(filepath.Dir(under), dirMode); err != nil {
		return err
	}
	out, err := to.OpenFile(under, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	return errors.Join(err, out.Sync(), out.Close())
}

// renew checks the copy, brings its format up to date and ends what was of the other host.
func (a *adopter) renew(ctx context.Context) error {
	if err := sqlite.Sealed(a.at(rawName), a.checkPrograms); err != nil {
		return unsound(err)
	}
	b, err := Open(ctx, Options{Path: a.at(rawName), Slug: a.slug})
	if err != nil {
		return badArchive("cannot be used: %v", err)
	}
	defer b.Close()
	if err := b.write(ctx, "adopt board", a.rehouse); err != nil {
		return err
	}
	if a.out.Counts, err = b.count(ctx); err != nil {
		return err
	}
	return b.file.Snapshot(ctx, a.at("board", fileNameDB), counted...)
}

const (
	parkRunning = `UPDATE tasks SET status = 'blocked', block_kind = 'needs_input' WHERE id = ? AND status = 'running'`
	endClaims   = `UPDATE tasks SET claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL, current_run_id = NULL, last_heartbeat_at = NULL`
	leaveScraps = `UPDATE tasks SET workspace_path = NULL WHERE workspace_kind = 'scratch'`
	parkedWhy   = "a worker of Hermes was under way with this card when its board was moved here; see how far it came, then unblock the card"
)

func (a *adopter) rehouse(t *txn) (err error) {
	if a.out.Parked, err = texts(t.Conn, countRunning); err != nil {
		return err
	}
	for _, id := range a.out.Parked {
		if err := t.leaveToAPerson(id); err != nil {
			return err
		}
	}
	if _, err := t.Row(`SELECT count(*) FROM kanban_notify_subs`, nil, &a.out.Subs); err != nil {
		return err
	}
	for _, sql := range []string{endClaims, scrubPids, leaveScraps, scrubSubs} {
		if _, err := t.run("end what was of the other host", sql); err != nil {
			return err
		}
	}
	if _, err := t.run("close runs", scrubRuns, t.now); err != nil {
		return err
	}
	a.done.Dropped = 0
	if err := a.repoint(t); err != nil {
		return err
	}
	a.out.Missing, a.done.Parked = a.done.Dropped, a.out.Parked
	return a.tell(t)
}

// leaveToAPerson blocks a card that somebody may still work on elsewhere.
func (t *txn) leaveToAPerson(id string) error {
	if mutation.On("adopted-cards-run-twice") {
		return t.must("release card", `UPDATE tasks SET status = 'ready' WHERE id = ?`, id)
	}
	if err := t.must("park card", parkRunning, id); err != nil {
		return err
	}
	return t.event(id, 0, "blocked", payload{{"reason", parkedWhy}, {"kind", "needs_input"}})
}

// describeAdopted keeps what people said of the board, and notes where it came from.
func (a *adopter) describeAdopted() error {
	doc, err := a.from.readDoc(a.slug)
	if err != nil {
		doc = newBoardDoc(a.slug, time.Now().Unix())
	}
	doc.set(adoptedFrom, a.from.DBPath(a.slug))
	doc.set(adoptedAt, time.Now().Unix())
	text, err := doc.text(a.slug)
	if err != nil {
		return fmt.Errorf("describe board: %w", err)
	}
	return writeSyncedFile(a.at("board", metaName), text)
}

// settle gives the board its name. The default board lies in pieces: its file comes last and makes it one.
func (a *adopter) settle() error {
	if a.slug != DefaultSlug {
		return a.name()
	}
	for _, sub := range []string{"attachments", "logs"} {
		if err := a.merge(sub); err != nil {
			return err
		}
	}
	meta := filepath.Join(boardDir(a.slug), metaName)
	if err := a.root.fs.MkdirAll(boardDir(a.slug), dirMode); err != nil {
		return err
	}
	if err := os.Rename(a.at("board", metaName), filepath.Join(a.root.dir, meta)); err != nil {
		return err
	}
	err := os.Link(a.at("board", fileNameDB), a.root.DBPath(a.slug)) // unlike a rename, it never takes the place of another
	return errors.Join(err, a.root.syncDir(boardDir(a.slug)), a.root.syncDir("."))
}

// name is importer.place without its description.
func (a *adopter) name() error {
	for _, dir := range []string{a.at("board"), a.stage.path} {
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	boards := filepath.Join("kanban", "boards")
	if err := a.root.fs.Rename(filepath.Join(boards, a.stage.name, "board"), boardDir(a.slug)); err != nil {
		return err
	}
	return a.root.syncDir(boards)
}

// merge moves the files of the default board in among those that an import before this one left when it was killed.
func (a *adopter) merge(sub string) error {
	src := os.DirFS(a.at("board"))
	if _, err := fs.Stat(src, sub); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(src, sub, func(name string, e fs.DirEntry, err error) error {
		to := filepath.Join("kanban", name)
		if err != nil || e.IsDir() {
			return errors.Join(err, a.root.fs.MkdirAll(to, dirMode))
		}
		return os.Rename(a.at("board", name), filepath.Join(a.root.dir, to))
	})
}
