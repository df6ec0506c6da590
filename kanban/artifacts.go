package kanban

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// staged are the files that a worker shows for its card: copied where they would go with the workspace, and named by no
// row yet.
type staged struct {
	board *Board
	by    string
	files []stagedFile
}

type stagedFile struct {
	source string // relative to the workspace
	path   string // where it can be read from now on
	blob   *blob  // nil where the file stays in the workspace, which nobody removes
}

const mostArtifacts = 100

// stage copies what a worker declares as its card's artifacts out of the workspace. They may lie nowhere else: a path is
// the worker's word, and what it names is shown to people and sent to them. Whoever calls it keeps the files with the verb's
// own transaction, or drops them.
func (b *Board) stage(ctx context.Context, task string, run *RunID, artifacts []string) (staged, error) {
	s := staged{board: b}
	if artifacts = unique(artifacts); len(artifacts) == 0 {
		return s, nil
	}
	if len(artifacts) > mostArtifacts {
		return s, invalid("artifacts of "+cardThing(task), "are more than 100", "pack them into one file")
	}
	var card Task
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		card, err = loadTask(c, task)
		return err
	})
	if err == nil {
		err = NewAttachment{Run: run}.admit(card)
	}
	if err != nil {
		return s, err
	}
	s.by = card.Assignee
	place, err := b.workplace(card)
	if err != nil {
		return s, noArtifact(card, artifacts[0], err)
	}
	defer place.root.Close()
	for _, artifact := range artifacts {
		file, err := b.stageOne(card, place, artifact)
		if err != nil {
			return s, errors.Join(err, s.drop())
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

// workplace is a card's workspace, opened.
type workplace struct {
	dir  string
	root *os.Root
	goes bool // it is removed when the card is over
}

func (b *Board) workplace(card Task) (workplace, error) {
	if card.WorkspaceKind != WorkspaceScratch {
		root, err := os.OpenRoot(card.WorkspacePath)
		return workplace{card.WorkspacePath, root, card.WorkspaceKind == WorkspaceWorktree}, err
	}
	all, err := enclosure.Open(b.workspaces)
	if err != nil {
		return workplace{}, err
	}
	defer all.Close()
	name := fileName(card.ID)
	if card.WorkspacePath != "" {
		if name, err = all.Name(card.WorkspacePath); err != nil {
			return workplace{}, err
		}
	}
	root, err := all.Root().OpenRoot(name)
	return workplace{filepath.Join(all.Path(), name), root, true}, err
}

// name makes a worker's path relative to the workspace, with or without the links that lead there.
func (p workplace) name(artifact string) string {
	for _, dir := range []string{p.dir, resolved(p.dir)} {
		if name, ok := strings.CutPrefix(filepath.Clean(artifact), dir+"/"); ok {
			return name
		}
	}
	return filepath.Clean(artifact)
}

func (b *Board) stageOne(card Task, place workplace, artifact string) (stagedFile, error) {
	name := place.name(artifact)
	f, err := place.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return stagedFile{}, noArtifact(card, artifact, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return stagedFile{}, noArtifact(card, artifact, errors.New("is not a regular file"))
	}
	staged := stagedFile{source: clean(name), path: filepath.Join(place.dir, name)}
	if !place.goes {
		return staged, nil
	}
	file := cleanFilename(name)
	if file == "" {
		file = "artifact"
	}
	copied, err := b.store(card.ID, file, completed, f)
	if err != nil {
		return stagedFile{}, err
	}
	staged.path, staged.blob = copied.path, &copied
	return staged, nil
}

func noArtifact(card Task, artifact string, err error) error {
	p := &problem.Error{
		Kind: problem.Invalid, Thing: "artifact " + quote(artifact) + " of " + cardThing(card.ID), What: "cannot be taken from the card's workspace", Fate: "the card was left as it is",
		Remedy: "name a file inside the workspace, or leave it out", Err: err,
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.What, p.Err = "is not in the card's workspace", nil
	}
	return p
}

// keep writes the rows of the copied files into the verb's transaction.
func (t *txn) keep(card Task, s staged) error {
	for _, f := range s.files {
		if f.blob == nil {
			continue
		}
		if _, err := t.attach(card.ID, card.CurrentRunID, NewAttachment{By: s.by}, *f.blob, f.source); err != nil {
			return err
		}
	}
	return nil
}

// paths are where the artifacts can be read, for the verb's event.
func (s staged) paths() []string {
	var list []string
	for _, f := range s.files {
		list = append(list, f.path)
	}
	return list
}

// settle drops the copies unless the verb that they belong to was stored.
func (s staged) settle(refused, err error) error {
	if refused == nil && err == nil || Committed(err) && refused == nil {
		return nil
	}
	return s.drop()
}

func (s staged) drop() error {
	var paths []string
	for _, f := range s.files {
		if f.blob != nil {
			paths = append(paths, f.blob.path)
		}
	}
	return s.board.dropBlobs(paths)
}

// dropWorkspace removes a card's scratch directory.
func (b *Board) dropWorkspace(task string) error {
	all, err := enclosure.Open(b.workspaces)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	return all.RemoveName(fileName(task))
}
