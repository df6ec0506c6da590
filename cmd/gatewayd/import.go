package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/hermeshome"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

func (c *cli) importVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Bring what another program holds", Args: verbs, RunE: help}
	cmd.AddCommand(c.importHermesVerb())
	return cmd
}

func (c *cli) importHermesVerb() *cobra.Command {
	var dry bool
	cmd := c.readVerb(&cobra.Command{
		Use: "hermes DIR", Short: "Bring the conversations, boards, settings and keys of a Hermes directory", Args: exactly(1),
		Long: `Brings what lies in DIR: conversations (state.db), boards (kanban.db, kanban/boards) with their files, config.yaml and the keys of .env.
DIR is only read, also while Hermes runs. Everything found there is in the report, which is kept in the home's imports directory, as
imported, already_there, skipped, refused or failed, each with its reason. The exit code is 0 when nothing failed.

Nothing here is overwritten: a board whose name is taken is left alone, and settings go to config.from-hermes.yaml where config.yaml has
some of its own. What is here already is not added twice, so the verb can be run again: after it was interrupted, or after more was said
there. Cards that a worker of Hermes was busy with are blocked until somebody looked. Name the state.db itself to bring conversations alone.

Not brought: routing of chats, pictures inside messages (a mark stands in their place), costs in money, git and platform details.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("DIR is empty; usage: %s", cmd.UseLine())
			}
			if _, err := config.Temporary(); dry && err != nil {
				return err
			}
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return c.onImport(cmd.Context(), dry, func(ctx context.Context, s *sessiondb.Store) error {
					got, err := sessiondb.ImportHermes(ctx, s, sessiondb.HermesOptions{Path: args[0], DryRun: dry})
					return c.tellMoved(ctx, s, got, err)
				})
			}
			return c.moveIn(cmd.Context(), args[0], dry)
		},
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be brought and write nothing")
	return cmd
}

// moveIn brings a whole directory.
func (c *cli) moveIn(ctx context.Context, dir string, dry bool) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	report, err := hermeshome.Import(ctx, hermeshome.Options{Dir: dir, Home: loaded, DryRun: dry, Conversations: func(ctx context.Context, dir string) (got sessiondb.Moved, err error) {
		err = c.onImport(ctx, dry, func(ctx context.Context, s *sessiondb.Store) error {
			got, err = sessiondb.ImportHermes(ctx, s, sessiondb.HermesOptions{Path: dir, DryRun: dry})
			if err == nil && !dry && got.Added > 0 {
				err = s.WaitIndexed(ctx)
			}
			return err
		})
		return got, err
	}})
	if report == nil {
		return err
	}
	told := c.emit(report, func(w io.Writer) { printMovedIn(w, report) })
	if err == nil && report.State == hermeshome.Broken {
		err = errSaid
	}
	return errors.Join(err, told)
}

// onImport opens state.db, or makes it. A dry run does neither: do gets a copy of it, or nil where there is none.
func (c *cli) onImport(ctx context.Context, dry bool, do func(context.Context, *sessiondb.Store) error) (err error) {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	options := storeOptions(loaded.Config, c.warnings(loaded))
	if dry {
		return onCopy(ctx, options, do)
	}
	s, err := sessiondb.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	return do(ctx, s)
}

// onCopy does something to a copy of the store that is gone afterwards. Opening the store itself would make files beside it, and bring
// its schema up to date.
func onCopy(ctx context.Context, o sessiondb.Options, do func(context.Context, *sessiondb.Store) error) error {
	if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
		return do(ctx, nil)
	}
	dir, err := os.MkdirTemp("", "gatewayd-dry-run-")
	if err != nil {
		return fmt.Errorf("make room for a dry run: %w", err)
	}
	defer os.RemoveAll(dir)
	borrowed, err := sqlite.Borrow(ctx, sqlite.BorrowOptions{Path: o.Path, Label: "state.db", Scratch: dir})
	if err != nil {
		return err
	}
	o.Path, o.Backups = filepath.Join(dir, "state.db"), ""
	if err := errors.Join(borrowed.Copy(ctx, o.Path), borrowed.Close()); err != nil {
		return err
	}
	s, err := sessiondb.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, s), s.Close())
}

func printMovedIn(w io.Writer, r *hermeshome.Report) {
	if r.Conversations != nil {
		printMoved(w, *r.Conversations)
	}
	for _, i := range r.Items {
		switch {
		case i.Kind == "session" && i.Outcome != hermeshome.Failed: // printed above
		case i.To != "" && i.Outcome != hermeshome.Skipped && i.Reason == "":
			fmt.Fprintf(w, "%s %s: %s: %s\n", i.Kind, line(i.Name), i.Outcome, line(i.To))
		default:
			fmt.Fprintf(w, "%s %s: %s\n", i.Kind, line(i.Name), strings.TrimSuffix(string(i.Outcome)+": "+line(i.Reason), ": "))
		}
	}
	var words []string
	for _, o := range hermeshome.Outcomes {
		words = append(words, fmt.Sprintf("%d %s", r.Totals[o], o))
	}
	did := ""
	if r.DryRun {
		did = " (dry run, nothing was written)"
	}
	fmt.Fprintf(w, "%s: %d things: %s%s\n", line(r.Source), len(r.Items), strings.Join(words, ", "), did)
	if r.File != "" {
		fmt.Fprintf(w, "report: %s\n", r.File)
	}
}

// tellMoved prints what an import did, also when it broke off, and makes what came searchable.
func (c *cli) tellMoved(ctx context.Context, s *sessiondb.Store, got sessiondb.Moved, err error) error {
	if got.Source == "" {
		return err
	}
	if perr := c.emit(got, func(w io.Writer) { printMoved(w, got) }); err == nil {
		err = perr
	}
	if err == nil && !got.DryRun && got.Added > 0 {
		err = s.WaitIndexed(ctx)
	}
	return err
}

func printMoved(w io.Writer, got sessiondb.Moved) {
	for _, o := range got.Sessions {
		if o.Skipped > 0 || o.Reason != "" {
			fmt.Fprintf(w, "session %s: %d messages not brought: %s\n", line(o.Session), o.Skipped, line(o.Reason))
		}
	}
	if got.Orphans > 0 {
		fmt.Fprintf(w, "%d messages not brought: they belong to no session of the file\n", got.Orphans)
	}
	for _, note := range got.Notes {
		fmt.Fprintf(w, "note: %s\n", line(note))
	}
	if got.More > 0 {
		fmt.Fprintf(w, "and %d more notes\n", got.More)
	}
	did, verb := "", "brought"
	if got.DryRun {
		did, verb = " (dry run, nothing was written)", "would be brought"
	}
	fmt.Fprintf(w, "%s: %d sessions, %d of them new; messages: %d %s, %d were here already, %d not brought%s\n",
		line(got.Source), len(got.Sessions), got.New, got.Added, verb, got.Present, got.Skipped, did)
}
