package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/kanban"
)

func (v *boardVerbs) boardsVerb() *cobra.Command {
	cmd := v.readVerb(&cobra.Command{Use: "boards", Short: "The boards themselves", Args: verbs})
	list := v.boardsListVerb()
	cmd.RunE = list.RunE
	cmd.AddCommand(list, v.boardsShowVerb(), v.boardsExportVerb())
	for _, verb := range []*cobra.Command{
		v.boardsCreateVerb(), v.boardsSwitchVerb(), v.boardsRenameVerb(), v.boardsWorkdirVerb(), v.boardsCapVerb(), v.boardsRemoveVerb(), v.boardsArchiveVerb(), v.boardsRestoreVerb(), v.boardsImportVerb(),
	} {
		cmd.AddCommand(v.forPeople(verb))
	}
	return cmd
}

// forPeople refuses a verb to workers: it is about more than their card.
func (v *boardVerbs) forPeople(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		loaded, err := v.load()
		if err == nil {
			err = house{Loaded: loaded}.actor().May(strings.TrimPrefix(cmd.CommandPath(), "gatewayd kanban "), "")
		}
		if err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

func (v *boardVerbs) boardsListVerb() *cobra.Command {
	var all bool
	cmd := v.readVerb(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the boards", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		h, err := v.openRoot()
		if err != nil {
			return err
		}
		boards, err := listed(h.root, all)
		if err != nil {
			return err
		}
		current := h.root.Current()
		shown := make([]kanban.Counted, 0, len(boards))
		for _, b := range boards {
			shown = append(shown, v.counted(cmd.Context(), h, b, current))
		}
		body := map[string]any{"boards": shown, "current": current}
		away := []kanban.Archived{}
		if all {
			gone, err := h.root.Archived()
			if err != nil {
				return err
			}
			away = append(away, gone...)
			body["archived"] = away
		}
		return v.emit(body, func(w io.Writer) {
			printBoards(w, shown)
			printArchived(w, away)
		})
	}})
	cmd.Flags().BoolVar(&all, "all", false, "archived boards too")
	return cmd
}

func listed(root *kanban.Root, all bool) ([]kanban.Info, error) {
	if all {
		return root.AllBoards()
	}
	return root.Boards()
}

// counted counts a board's cards. A board that cannot be read does not keep the others from being shown.
func (v *boardVerbs) counted(ctx context.Context, h house, info kanban.Info, current kanban.Slug) kanban.Counted {
	shown, err := kanban.Count(ctx, info, current, v.opener(h))
	if err != nil && shown.Trouble == "" {
		shown.Trouble = err.Error()
	}
	return shown
}

// opener opens a board for this process alone.
func (v *boardVerbs) opener(h house) kanban.Opener {
	return func(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
		b, err := kanban.Open(ctx, boardOptions(h.Config, h.root, slug, v.warnings(h.Loaded)))
		if err != nil {
			return nil, nil, err
		}
		return b, func() { _ = b.Close() }, nil
	}
}

func printArchived(w io.Writer, boards []kanban.Archived) {
	if len(boards) == 0 {
		return
	}
	fmt.Fprintln(w, "\narchived; `gatewayd kanban boards restore NAME` puts one back")
	table(w, func(row func(...any)) {
		for _, b := range boards {
			row("", b.Name, when(b.At), b.Path)
		}
	})
}

// boardsRestoreVerb puts back what archive has moved away.
func (v *boardVerbs) boardsRestoreVerb() *cobra.Command {
	return &cobra.Command{Use: "restore NAME", Short: "Put an archived board back (NAME as in list --all, or its slug)", Args: exactly(1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := v.openRoot()
		if err != nil {
			return err
		}
		info, err := h.root.Restore(args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(v.std.out, "board %s is back (%s)\n", info.Slug, info.Path)
		return nil
	}}
}

func printBoards(w io.Writer, boards []kanban.Counted) {
	table(w, func(row func(...any)) {
		for _, b := range boards {
			row(pointer(b.IsCurrent), b.Slug, b.Name, boardState(b), b.Path)
		}
	})
	for _, b := range boards {
		if b.Trouble != "" {
			fmt.Fprintf(w, "board %s: %s\n", b.Slug, line(b.Trouble))
		}
	}
}

// boardState is a board in a word or two: whether it starts cards, and how many it has.
func boardState(b kanban.Counted) string {
	switch {
	case !b.HasFile:
		return "not made yet"
	case b.Counts == nil:
		return "cannot be read"
	case b.Archived:
		return "archived, " + many(b.Total, "card")
	case b.Pause != nil && b.Pause.Mode == kanban.PauseDrain:
		return "draining, " + many(b.Total, "card")
	case b.Pause != nil:
		return "paused, " + many(b.Total, "card")
	}
	return many(b.Total, "card")
}

func pointer(is bool) string {
	if is {
		return "*"
	}
	return ""
}

func (v *boardVerbs) boardsCreateVerb() *cobra.Command {
	var meta kanban.Meta
	var use bool
	cmd := &cobra.Command{Use: "create SLUG", Aliases: []string{"new"}, Short: "Create a board", Args: exactly(1), RunE: func(cmd *cobra.Command, args []string) error {
		h, err := v.makeRoot()
		if err != nil {
			return err
		}
		slug, err := kanban.ParseSlug(args[0])
		if err != nil {
			return err
		}
		info, err := createBoard(cmd.Context(), h.Config, h.root, slug, meta, v.warnings(h.Loaded))
		if err != nil {
			return err
		}
		fmt.Fprintf(v.std.out, "created board %s (%s)\n", info.Slug, info.Path)
		if use {
			return h.root.SetCurrent(slug)
		}
		return nil
	}}
	f := cmd.Flags()
	f.StringVar(&meta.Name, "name", "", "what people call it")
	f.StringVar(&meta.Description, "description", "", "what it is for")
	f.StringVar(&meta.Icon, "icon", "", "a sign for it")
	f.StringVar(&meta.Color, "color", "", "a colour for it")
	f.StringVar(&meta.DefaultWorkdir, "default-workdir", "", "absolute directory of its dir and worktree cards")
	f.BoolVar(&use, "switch", false, "make it the current board")
	return cmd
}

// onSlug makes a verb whose first argument names a board.
func (v *boardVerbs) onSlug(cmd *cobra.Command, do func(ctx context.Context, h house, slug kanban.Slug, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := v.openRoot()
		if err != nil {
			return err
		}
		slug, err := kanban.ParseSlug(args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), h, slug, args[1:])
	}
	return cmd
}

func (v *boardVerbs) boardsSwitchVerb() *cobra.Command {
	return v.onSlug(&cobra.Command{Use: "switch SLUG", Aliases: []string{"use"}, Short: "Make a board the current one", Args: exactly(1)},
		func(_ context.Context, h house, slug kanban.Slug, _ []string) error {
			if err := h.root.SetCurrent(slug); err != nil {
				return err
			}
			fmt.Fprintf(v.std.out, "%s is the current board\n", slug)
			return nil
		})
}

func (v *boardVerbs) boardsShowVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "show [SLUG]", Aliases: []string{"current"}, Short: "Print what a board is (default: the current one)", Args: between(0, 1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := v.openRoot()
		if err != nil {
			return err
		}
		slug := h.root.Current()
		if len(args) == 1 {
			if slug, err = kanban.ParseSlug(args[0]); err != nil {
				return err
			}
		}
		info, err := h.root.Lookup(slug)
		if err != nil {
			return err
		}
		return v.emit(info, func(w io.Writer) { printBoard(w, info, slug == h.root.Current()) })
	}})
}

func printBoard(w io.Writer, b kanban.Info, current bool) {
	table(w, func(row func(...any)) {
		for _, f := range [][2]string{
			{"board", string(b.Slug)},
			{"name", b.Name},
			{"description", b.Description},
			{"icon", b.Icon},
			{"color", b.Color},
			{"default workdir", b.DefaultWorkdir},
			{"max in progress", numberOr(b.MaxInProgress, "")},
			{"file", b.Path},
			{"trouble", b.Trouble},
		} {
			if f[1] != "" {
				row(f[0], f[1])
			}
		}
		if current {
			row("current", "yes")
		}
		if b.Archived {
			row("archived", "yes")
		}
	})
}

func (v *boardVerbs) boardsRenameVerb() *cobra.Command {
	return v.onSlug(&cobra.Command{Use: "rename SLUG NAME...", Short: "Change what people call a board; its slug stays", Args: atLeast(2)},
		func(_ context.Context, h house, slug kanban.Slug, args []string) error {
			name := words(args, 0)
			if _, err := h.root.Update(slug, kanban.MetaChange{Name: &name}); err != nil {
				return err
			}
			fmt.Fprintf(v.std.out, "board %s is called %s now\n", slug, line(name))
			return nil
		})
}

func (v *boardVerbs) boardsWorkdirVerb() *cobra.Command {
	return v.onSlug(&cobra.Command{Use: "set-default-workdir SLUG [DIR]", Short: "Set where a board's dir and worktree cards work (none: nowhere)", Args: between(1, 2)},
		func(_ context.Context, h house, slug kanban.Slug, args []string) error {
			dir := words(args, 0)
			if dir != "" && !filepath.IsAbs(dir) {
				return usagef("%q is not an absolute path", dir)
			}
			if _, err := h.root.Update(slug, kanban.MetaChange{DefaultWorkdir: &dir}); err != nil {
				return err
			}
			if dir == "" {
				dir = "nowhere"
			}
			fmt.Fprintf(v.std.out, "cards of board %s work in %s by default\n", slug, line(dir))
			return nil
		})
}

func (v *boardVerbs) boardsCapVerb() *cobra.Command {
	return v.onSlug(&cobra.Command{Use: "set-max-in-progress SLUG N", Short: "Set how many workers a board has at the same time (none: kanban.max_per_board)", Args: exactly(2)},
		func(_ context.Context, h house, slug kanban.Slug, args []string) error {
			n, says := 0, fmt.Sprintf("board %s has as many workers as kanban.max_per_board lets it have", slug)
			if args[0] != "none" {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return usagef("N must be a whole number from 1, or none, not %q", args[0])
				}
				says = fmt.Sprintf("board %s has at most %s at the same time", slug, many(n, "worker"))
			}
			if _, err := h.root.Update(slug, kanban.MetaChange{MaxInProgress: &n}); err != nil {
				return err
			}
			fmt.Fprintln(v.std.out, says)
			return nil
		})
}

func (v *boardVerbs) boardsRemoveVerb() *cobra.Command {
	var forGood bool
	cmd := v.onSlug(&cobra.Command{Use: "rm SLUG", Aliases: []string{"remove", "delete"}, Short: "Archive a board, or delete it for good with --delete", Args: exactly(1)},
		func(ctx context.Context, h house, slug kanban.Slug, _ []string) error {
			return v.removeBoard(ctx, h, slug, forGood)
		})
	cmd.Flags().BoolVar(&forGood, "delete", false, "remove its cards and files, which cannot be undone")
	return cmd
}

func (v *boardVerbs) boardsArchiveVerb() *cobra.Command {
	return v.onSlug(&cobra.Command{Use: "archive SLUG", Short: "Move a board away, whole", Args: exactly(1)},
		func(ctx context.Context, h house, slug kanban.Slug, _ []string) error {
			return v.removeBoard(ctx, h, slug, false)
		})
}

// removeBoard asks the daemon of this home, which has the board open, and does it here where none runs.
func (v *boardVerbs) removeBoard(ctx context.Context, h house, slug kanban.Slug, forGood bool) error {
	removed, err := v.removeThere(ctx, h, slug, forGood)
	if err != nil {
		return err
	}
	if removed.Action == "archived" {
		fmt.Fprintf(v.std.out, "archived board %s as %s\n", removed.Slug, removed.NewPath)
	} else {
		fmt.Fprintf(v.std.out, "deleted board %s\n", removed.Slug)
	}
	return nil
}

func (v *boardVerbs) removeThere(ctx context.Context, h house, slug kanban.Slug, forGood bool) (removed kanban.Removed, err error) {
	if _, running, err := config.HolderOf(h.Home); err == nil && running {
		daemon, err := v.dial()
		if err != nil {
			return removed, err
		}
		return removed, daemon.call(ctx, http.MethodDelete, fmt.Sprintf("/api/boards/%s?delete=%t", slug, forGood), nil, &removed)
	}
	hands := kanban.Hands{Open: v.opener(h)}
	if forGood {
		return h.root.Delete(ctx, slug, hands)
	}
	return h.root.Archive(ctx, slug, hands)
}

func (v *boardVerbs) boardsExportVerb() *cobra.Command {
	var o kanban.ExportOptions
	var noFiles, noLogs bool
	cmd := v.readVerb(v.onSlug(&cobra.Command{Use: "export SLUG [FILE]", Short: "Write a board as one archive (-: to standard output)", Args: between(1, 2)},
		func(ctx context.Context, h house, slug kanban.Slug, args []string) error {
			o.Version, o.Attachments, o.Logs = version, !noFiles, !noLogs
			v.slug = string(slug)
			return v.onBoard(ctx, func(ctx context.Context, h house, b *kanban.Board) error {
				return v.export(ctx, h, b, words(args, 0), o)
			})
		}))
	cmd.Flags().BoolVar(&noFiles, "no-attachments", false, "leave the files of cards out")
	cmd.Flags().BoolVar(&noLogs, "no-logs", false, "leave the logs of workers out")
	return cmd
}

func (v *boardVerbs) export(ctx context.Context, h house, b *kanban.Board, file string, o kanban.ExportOptions) error {
	if file == "-" {
		_, err := h.root.Export(ctx, b, v.std.out, o)
		return err
	}
	if file != "" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		file = abs
	}
	done, path, err := h.root.WriteExport(ctx, b, file, o)
	if err != nil {
		return err
	}
	body := map[string]any{"path": path, "manifest": done.Manifest, "missing": done.Missing}
	return v.emit(body, func(w io.Writer) {
		fmt.Fprintf(w, "exported board %s: %s to %s\n", b.Slug(), many(done.Manifest.Counts["tasks"], "card"), path)
		if n := len(done.Missing); n > 0 {
			fmt.Fprintf(v.std.err, "note: %d attachments are not in it, because their file is not there\n", n)
		}
	})
}

func (v *boardVerbs) boardsImportVerb() *cobra.Command {
	var as, name string
	var use bool
	cmd := v.readVerb(&cobra.Command{Use: "import FILE", Short: "Make a new board of an exported one", Args: exactly(1), RunE: func(cmd *cobra.Command, args []string) error {
		h, err := v.makeRoot()
		if err != nil {
			return err
		}
		o := kanban.ImportOptions{Name: name}
		if as != "" {
			if o.Slug, err = kanban.ParseSlug(as); err != nil {
				return err
			}
		}
		done, err := v.importFile(cmd.Context(), h, args[0], o)
		if err == nil && use {
			err = h.root.SetCurrent(done.Board.Slug)
		}
		if err != nil {
			return err
		}
		return v.emit(done, func(w io.Writer) { v.printImported(w, done) })
	}})
	cmd.Flags().StringVar(&as, "slug", "", "what to call it (default: as where it was exported)")
	cmd.Flags().StringVar(&name, "name", "", "what people call it")
	cmd.Flags().BoolVar(&use, "switch", false, "make it the current board")
	return cmd
}

func (v *boardVerbs) importFile(ctx context.Context, h house, file string, o kanban.ImportOptions) (kanban.Imported, error) {
	if file == "-" {
		return h.root.Import(ctx, v.std.in, o)
	}
	f, err := os.Open(file)
	if err != nil {
		return kanban.Imported{}, unreadable("archive "+file, "name the file that `gatewayd kanban boards export` wrote", err)
	}
	defer f.Close()
	return h.root.Import(ctx, f, o)
}

func (v *boardVerbs) printImported(w io.Writer, done kanban.Imported) {
	fmt.Fprintf(w, "imported board %s as %s: %s (%s)\n", line(done.From), done.Board.Slug, many(done.Counts["tasks"], "card"), done.Board.Path)
	if n := len(done.Parked); n > 0 {
		fmt.Fprintf(w, "%d cards are in triage now, because they worked in directories of another machine\n", n)
	}
	if done.Dropped > 0 {
		fmt.Fprintf(v.std.err, "note: %d attachments are not in the archive\n", done.Dropped)
	}
}

func (v *boardVerbs) gcVerb() *cobra.Command {
	var events, logs int
	cmd := v.readVerb(&cobra.Command{Use: "gc", Short: "Remove old history, old logs and archived cards' workspaces of a board", Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error {
		if events < 0 || logs < 0 {
			return usagef("a retention cannot be negative")
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			done, err := b.GC(ctx, kanban.GC{Events: days(events), Logs: days(logs)})
			if err != nil {
				return err
			}
			return v.emit(done, func(w io.Writer) {
				fmt.Fprintf(w, "board %s: removed %d events, %d logs, %d workspaces, %d stray files\n", b.Slug(), done.Events, done.Logs, done.Workspaces, done.Strays)
			})
		})
	}})
	usual := int(kanban.DefaultRetention / (24 * time.Hour))
	cmd.Flags().IntVar(&events, "event-retention-days", usual, "keep the history of finished cards for so long")
	cmd.Flags().IntVar(&logs, "log-retention-days", usual, "keep logs for so long")
	return cmd
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
