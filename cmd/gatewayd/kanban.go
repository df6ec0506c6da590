package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// boardVerbs is what the verbs below `kanban` share: which board, and who is speaking.
type boardVerbs struct {
	*cli
	slug string
}

func (c *cli) kanbanVerb() *cobra.Command {
	v := &boardVerbs{cli: c}
	cmd := &cobra.Command{Use: "kanban", Short: "Boards and cards", Args: verbs, RunE: help}
	cmd.PersistentFlags().StringVar(&v.slug, "board", "", "board (default: the worker's own, else the current one)")
	cmd.AddCommand(v.boardsVerb())
	cmd.AddCommand(v.readVerbs()...)
	cmd.AddCommand(v.writeVerbs()...)
	cmd.AddCommand(v.peopleVerbs()...)
	cmd.AddCommand(v.seeVerbs()...)
	cmd.AddCommand(v.noticeVerbs()...)
	cmd.AddCommand(v.pauseVerbs()...)
	cmd.AddCommand(v.dispatchVerb())
	cmd.AddCommand(v.fileVerbs()...)
	return cmd
}

// house is where the boards are, as the configuration says.
type house struct {
	config.Loaded
	root *kanban.Root
	name string // of the worker that speaks, once the board has said it
}

func (v *boardVerbs) openRoot() (house, error) {
	loaded, err := v.load()
	if err != nil {
		return house{}, err
	}
	return v.rootOf(loaded)
}

// makeRoot makes the directory of the boards where there is none: creating a board is what it is for.
func (v *boardVerbs) makeRoot() (house, error) {
	loaded, err := v.load()
	if err != nil {
		return house{}, err
	}
	if err := os.MkdirAll(loaded.Kanban.Root, 0o700); err != nil {
		return house{}, unusable("board root "+loaded.Kanban.Root, "name another directory with --home or kanban.root", err)
	}
	return v.rootOf(loaded)
}

func (v *boardVerbs) rootOf(loaded config.Loaded) (house, error) {
	if err := mustBeDir("board root ", loaded.Kanban.Root); err != nil {
		return house{}, err
	}
	root, err := kanban.OpenRoot(loaded.Kanban.Root)
	return house{Loaded: loaded, root: root}, err
}

// onBoard opens the board that the flags, the worker's identity or the current pointer name, for one call.
func (v *boardVerbs) onBoard(ctx context.Context, do func(context.Context, house, *kanban.Board) error) (err error) {
	h, err := v.openRoot()
	if err != nil {
		return err
	}
	slug, err := v.board(h)
	if err != nil {
		return err
	}
	b, err := kanban.Open(ctx, boardOptions(h.Config, h.root, slug, v.warnings(h.Loaded)))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := b.Close(); err == nil {
			err = cerr
		}
	}()
	return h.disowned(do(ctx, h.named(ctx, b), h.held(b)))
}

// board names the board. A worker is bound to its own: another one is refused, not ignored, and so is a board that is not in
// the file which the worker was given.
func (v *boardVerbs) board(h house) (kanban.Slug, error) {
	slug, err := v.namedBoard(h)
	if err != nil || h.Worker == nil || h.Worker.DB == "" {
		return slug, err
	}
	if path := h.root.DBPath(slug); !samePath(path, h.Worker.DB) {
		return "", &problem.Error{
			Kind: problem.Denied, Thing: "board " + string(slug), What: "is in " + path + ", and this worker was given " + h.Worker.DB, Fate: "nothing was changed",
			Remedy: "leave --board and --home out, or correct GATEWAYD_KANBAN_DB",
		}
	}
	return slug, nil
}

func (v *boardVerbs) namedBoard(h house) (kanban.Slug, error) {
	own := ""
	if h.Worker != nil {
		own = h.Worker.Board
	}
	switch {
	case own != "" && v.slug != "" && v.slug != own:
		return "", &problem.Error{
			Kind: problem.Denied, Thing: "board " + v.slug, What: "is not this worker's",
			Fate: "nothing was changed", Remedy: "leave --board out: a worker acts on board " + own,
		}
	case own != "":
		return kanban.ParseSlug(own)
	case v.slug != "":
		return kanban.ParseSlug(v.slug)
	}
	return h.root.Current(), nil
}

// samePath compares two files with their links followed.
func samePath(a, b string) bool {
	ra, erra := filepath.EvalSymlinks(a)
	rb, errb := filepath.EvalSymlinks(b)
	return erra == nil && errb == nil && ra == rb || filepath.Clean(a) == filepath.Clean(b)
}

// card is the card that the arguments name, or the worker's own.
func (h house) card(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	if h.Worker != nil {
		return h.Worker.Task, nil
	}
	return "", usagef("name a card: only a worker has one of its own")
}

// speaker is the name under which this process writes: a worker's lane, else the person's login.
func (h house) speaker() string {
	if h.Worker != nil {
		return cmp.Or(h.name, h.Worker.Task)
	}
	if user := h.Environ.Get("USER"); user != "" {
		return user
	}
	return "user"
}

// statusIcon is the sign of a card's status, as Hermes prints it.
func statusIcon(status string) string {
	icons := map[string]string{
		"triage": "◇", "todo": "◻", "scheduled": "⏱", "ready": "▶", "running": "●", "blocked": "⊘", "review": "◎", "done": "✓", "archived": "—",
	}
	if icon, ok := icons[status]; ok {
		return icon
	}
	return "?"
}

// words joins the arguments from the n-th on into one text.
func words(args []string, n int) string {
	if len(args) <= n {
		return ""
	}
	return strings.Join(args[n:], " ")
}
