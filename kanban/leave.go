package kanban

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Hands are how a process reaches the files of boards: in the daemon through its registry, elsewhere by opening them.
type Hands struct {
	Open  Opener
	Close func(ctx context.Context, dir string) error // closes what this process has open below dir, whoever uses it; nil = nothing is
}

// Removed says where a board went.
type Removed struct {
	Slug    Slug   `json:"slug"`
	Action  string `json:"action"` // archived or deleted
	NewPath string `json:"new_path,omitempty"`
}

const (
	archiveDir  = "_archived"
	leavingMark = ".removed-" // a board that is being deleted; its name is no slug
	// leaveWait is how long a board that is leaving waits for a tick on it to end.
	leaveWait = 15 * time.Second
)

// Archive moves a board, whole, to kanban/boards/_archived, where nobody lists it. It refuses the default board, a board with
// running cards, and one whose file another process holds. Whenever it is cut off, the board is either where it was or
// there.
func (r *Root) Archive(ctx context.Context, slug Slug, hands Hands) (Removed, error) {
	var to string
	err := r.leave(ctx, slug, hands, "archived", func() (err error) {
		to, err = r.moveTo(boardDir(slug), func(n int) string {
			name := fmt.Sprintf("%s-%d", slug, time.Now().Unix())
			if n > 0 {
				name = fmt.Sprintf("%s-%d", name, n)
			}
			return filepath.Join("kanban", "boards", archiveDir, name)
		})
		return err
	})
	return Removed{Slug: slug, Action: "archived", NewPath: filepath.Join(r.dir, to)}, err
}

// Delete removes a board for good, under the same conditions as Archive. Whenever it is cut off, the board is there whole or
// not at all; what is left of it then goes with the next one.
func (r *Root) Delete(ctx context.Context, slug Slug, hands Hands) (Removed, error) {
	err := r.leave(ctx, slug, hands, "deleted", func() error {
		_, err := r.moveTo(boardDir(slug), func(n int) string {
			return filepath.Join("kanban", "boards", archiveDir, fmt.Sprintf("%s%s-%d-%d", leavingMark, slug, time.Now().UnixNano(), n))
		})
		return err
	})
	if err == nil {
		err = r.clearRemoved()
	}
	return Removed{Slug: slug, Action: "deleted"}, err
}

// leave lets a board go: no dispatcher is in its tick on it, no card of it runs, no handle of this process and no other
// process has its file, and then away takes it from its place.
func (r *Root) leave(ctx context.Context, slug Slug, hands Hands, done string, away func() error) error {
	info, err := r.Lookup(slug)
	if err != nil {
		return err
	}
	if slug == DefaultSlug {
		return &problem.Error{Kind: problem.Denied, Thing: boardThing(slug, info.Path), What: "cannot be " + done, Fate: unchanged, Remedy: "it always exists; archive its cards instead"}
	}
	if info.HasFile {
		lock, err := r.stopTicks(ctx, slug)
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := idle(ctx, slug, info.Path, hands, done); err != nil {
			return err
		}
	}
	if hands.Close != nil {
		if err := hands.Close(ctx, filepath.Join(r.dir, boardDir(slug))); err != nil {
			return err
		}
	}
	if err := unheld(slug, info.Path, done); err != nil {
		return err
	}
	current := r.Current() == slug
	if err := away(); err != nil {
		return diskProblem(boardThing(slug, info.Path), "cannot be "+done, unchanged, err)
	}
	if hands.Close != nil { // who opened it in between has the file that moved
		_ = hands.Close(ctx, filepath.Join(r.dir, boardDir(slug)))
	}
	if current {
		_ = r.fs.Remove(currentFile) // a pointer to a board that is gone means default anyway
	}
	return nil
}

// stopTicks takes the lock of one tick on the board, so that no dispatcher hands out a card of it meanwhile.
func (r *Root) stopTicks(ctx context.Context, slug Slug) (*FileLock, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	lock, err := waitLock(ctx, DispatchLockPath(r.DBPath(slug)), initLockPoll)
	if errors.Is(err, ErrHeld) {
		return nil, &problem.Error{
			Kind: problem.Busy, Thing: boardThing(slug, r.DBPath(slug)), What: "is in a dispatcher's tick that does not end", Fate: unchanged, Remedy: "try again", Err: err,
		}
	}
	return lock, err
}

// idle refuses a board with running cards. A damaged file tells of none; it may be moved, but not be deleted unread.
func idle(ctx context.Context, slug Slug, path string, hands Hands, done string) error {
	b, release, err := hands.Open(ctx, slug)
	if problem.Is(err, problem.Damaged) && done == "archived" {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	running, err := b.List(ctx, Filter{Status: StatusRunning})
	if err != nil || len(running) == 0 {
		return err
	}
	ids := make([]string, len(running))
	for i, card := range running {
		ids[i] = card.ID
	}
	return &problem.Error{
		Kind: problem.Conflict, Thing: boardThing(slug, path), What: "has running cards: " + joinSome(ids, 5), Fate: unchanged,
		Remedy: "pause the board and wait for them, or reclaim them first", Err: mark{ErrConflict},
	}
}

// unheld refuses a board whose file another process has open: it would go on writing to what nobody sees.
func unheld(slug Slug, path, done string) error {
	holders, err := sqlite.Holders(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(holders) == 0 {
		return err
	}
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = h.String()
	}
	return &problem.Error{
		Kind: problem.Busy, Thing: boardThing(slug, path), What: "is open in " + joinSome(names, 3), Fate: unchanged,
		Remedy: "end it, and have the board " + done + " then",
	}
}

// moveTo renames a directory to the first of the names that is free, and makes both ends durable.
func (r *Root) moveTo(from string, name func(n int) string) (to string, err error) {
	if err := r.fs.MkdirAll(filepath.Dir(name(0)), dirMode); err != nil {
		return "", err
	}
	for n := range mostCollisions {
		to = name(n)
		if _, err = r.fs.Lstat(to); err == nil {
			continue
		}
		if err = r.fs.Rename(from, to); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		err = errors.Join(r.syncDir(filepath.Dir(to)), r.syncDir(filepath.Dir(from)))
	}
	return to, err
}

// clearRemoved removes what is left of deleted boards. Links in them go, and are not followed.
func (r *Root) clearRemoved() error {
	entries, err := r.readDir(filepath.Join("kanban", "boards", archiveDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var failed error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), leavingMark) {
			failed = errors.Join(failed, r.removeTree(filepath.Join("kanban", "boards", archiveDir), e.Name()))
		}
	}
	if failed != nil {
		failed = diskProblem("what is left of a deleted board", "stays", "the board is gone all the same", failed)
	}
	return errors.Join(err, failed)
}
