package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func (c *cli) importVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Bring conversations from another program", Args: verbs, RunE: help}
	cmd.AddCommand(c.importHermesVerb())
	return cmd
}

func (c *cli) importHermesVerb() *cobra.Command {
	var dry bool
	cmd := c.readVerb(&cobra.Command{
		Use: "hermes DIR", Short: "Bring the conversations of a Hermes directory", Args: exactly(1),
		Long: `Copies sessions with their titles, models, system prompts, ends, lineage and usage, and all their messages, out of the state.db in DIR
(or the state.db that is named), whatever version of Hermes wrote it. That file is only read, also while Hermes runs.

What is here already is not added twice, so the verb can be run again: after it was interrupted, or after more was said there.
A conversation that went on here is left as it is.

Not brought: routing of chats, pictures inside messages (a mark stands in their place), costs in money, git and platform details.
Boards, configuration and keys stay where they are.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("DIR is empty; usage: %s", cmd.UseLine())
			}
			return c.onImport(cmd.Context(), dry, func(ctx context.Context, s *sessiondb.Store) error {
				got, err := sessiondb.ImportHermes(ctx, s, sessiondb.HermesOptions{Path: args[0], DryRun: dry})
				return c.tellMoved(ctx, s, got, err)
			})
		},
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be brought and write nothing")
	return cmd
}

// onImport opens state.db, or makes it. A dry run makes none: do gets nil then.
func (c *cli) onImport(ctx context.Context, dry bool, do func(context.Context, *sessiondb.Store) error) (err error) {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	options := storeOptions(loaded.Config, c.warnings(loaded))
	options.Existing = dry
	s, err := sessiondb.Open(ctx, options)
	if dry && problem.Is(err, problem.NotFound) {
		return do(ctx, nil)
	}
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
