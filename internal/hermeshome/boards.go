package hermeshome

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// surveyBoards takes each board and everything beside them into the account.
func (m *move) surveyBoards() error {
	root, err := kanban.OpenRoot(m.Dir)
	if err != nil {
		return err
	}
	m.boards = root
	if _, err := os.Lstat(root.DBPath(kanban.DefaultSlug)); err == nil {
		m.report.find("board", string(kanban.DefaultSlug))
	}
	entries, err := os.ReadDir(filepath.Join(m.Dir, "kanban"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.report.settle("file", "kanban", Failed, err.Error(), "")
	}
	for _, e := range entries {
		switch name := "kanban/" + e.Name(); e.Name() {
		case "boards":
			m.surveyNamed()
		case "attachments", "logs":
			if _, err := os.Lstat(root.DBPath(kanban.DefaultSlug)); err != nil {
				m.report.settle("file", name, Skipped, "there is no default board that it belongs to", "")
			}
		case "workspaces":
			m.report.settle("file", name, Skipped, "scratch directories of cards stay where they are", "")
		default:
			m.report.settle("file", name, Skipped, "is about the running Hermes", "")
		}
	}
	return nil
}

func (m *move) surveyNamed() {
	entries, err := os.ReadDir(filepath.Join(m.Dir, "kanban", "boards"))
	if err != nil {
		m.report.settle("file", "kanban/boards", Failed, err.Error(), "")
	}
	for _, e := range entries {
		slug, err := kanban.ParseSlug(e.Name())
		switch name := "kanban/boards/" + e.Name(); {
		case e.Name() == "_archived":
			m.report.settle("file", name, Skipped, "archived boards stay where they are", "")
		case slug == kanban.DefaultSlug:
			// board.json of the default board, which is one with its file
		case err != nil || !e.IsDir() || string(slug) != e.Name():
			m.report.settle("file", name, Skipped, "is no board", "")
		default:
			m.report.find("board", string(slug))
		}
	}
}

func (m *move) moveBoards(ctx context.Context) error {
	defer m.boards.Close()
	to, err := m.openRoot()
	if err != nil {
		return err
	}
	if to != nil {
		defer to.Close()
	}
	for _, item := range m.report.Items {
		if item.Kind == "board" && item.Outcome == "" {
			if err := m.moveBoard(ctx, to, kanban.Slug(item.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// openRoot makes the board root where it is missing; a dry run goes on without one.
func (m *move) openRoot() (*kanban.Root, error) {
	dir := m.Home.Kanban.Root
	if !m.DryRun {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &problem.Error{Kind: problem.Unavailable, Thing: "board root " + dir, What: "cannot be made", Fate: "no board was brought", Remedy: "check owner and permissions", Err: err}
		}
	}
	root, err := kanban.OpenRoot(dir)
	if m.DryRun && problem.Is(err, problem.NotFound) {
		return nil, nil
	}
	return root, err
}

func (m *move) moveBoard(ctx context.Context, to *kanban.Root, slug kanban.Slug) error {
	if _, err := os.Lstat(m.boards.DBPath(slug)); errors.Is(err, fs.ErrNotExist) {
		m.report.settle("board", string(slug), Skipped, "has a description and no cards", "")
		return nil
	}
	scratch := os.TempDir()
	if !m.DryRun {
		scratch = m.Home.Home
	}
	got, err := to.Adopt(ctx, m.boards, slug, kanban.AdoptOptions{Scratch: scratch, DryRun: m.DryRun})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case problem.Is(err, problem.Conflict):
		m.report.settle("board", string(slug), Skipped, err.Error(), "")
	case err != nil:
		m.report.settle("board", string(slug), Failed, err.Error(), "")
	case got.Present:
		m.report.settle("board", string(slug), Present, "", to.DBPath(slug))
	default:
		m.report.settle("board", string(slug), Imported, boardWords(got), filepath.Join(m.Home.Kanban.Root, strings.TrimPrefix(m.boards.DBPath(slug), m.Dir)))
	}
	return nil
}

func boardWords(got kanban.Adopted) string {
	words := fmt.Sprintf("%d cards, %d files", got.Counts["tasks"], got.Files)
	if n := len(got.Parked); n > 0 {
		words += fmt.Sprintf("; %d cards were running and are blocked until somebody looked: %s", n, strings.Join(got.Parked[:min(n, 5)], ", "))
	}
	if got.Missing > 0 {
		words += fmt.Sprintf("; %d attachments have no file there and were left out", got.Missing)
	}
	if got.Subs > 0 {
		words += fmt.Sprintf("; %d subscriptions of chats were left out", got.Subs)
	}
	return words
}
