package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

func (c *cli) repairVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repair", Short: "Mend a damaged database that nobody has open", Args: verbs, RunE: help,
		Long: "Mend a damaged database. Stop the daemon and all workers first. The damaged file is copied before anything is tried; rows\nthat can be read are never given up, and where nothing helps the file stays as it is.",
	}
	cmd.AddCommand(
		c.readVerb(&cobra.Command{
			Use: "state", Short: "Mend state.db, the conversations", Args: exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				loaded, err := c.load()
				if err != nil {
					return err
				}
				return c.repair(cmd, sessiondb.RepairOptions(storePath(loaded.Config), c.warnings(loaded)))
			},
		}),
		c.readVerb(&cobra.Command{
			Use: "board NAME", Short: "Mend the file of a board", Args: exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				loaded, err := c.load()
				if err != nil {
					return err
				}
				slug, path, err := boardFile(loaded.Kanban.Root, args[0])
				if err != nil {
					return err
				}
				return c.repair(cmd, kanban.RepairOptions(slug, path, c.warnings(loaded)))
			},
		}),
	)
	return cmd
}

// boardFile gives the path of a board's file, whether it can be opened or not.
func boardFile(dir, name string) (kanban.Slug, string, error) {
	slug, err := kanban.ParseSlug(name)
	if err != nil {
		return "", "", err
	}
	root, err := kanban.OpenRoot(dir)
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	path := root.DBPath(slug)
	if _, err := os.Lstat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return "", "", &problem.Error{
			Kind: problem.NotFound, Thing: kanban.BoardLabel(slug), What: "does not exist", Fate: "nothing was changed",
			Remedy: "list the existing ones with `gatewayd kanban boards list`, or " + sqlite.PutBack,
		}
	}
	return slug, path, nil
}

func (c *cli) repair(cmd *cobra.Command, o sqlite.RepairOptions) error {
	r, err := sqlite.Repair(cmd.Context(), o)
	if err != nil {
		return err
	}
	return c.emit(r, func(w io.Writer) {
		if r.Outcome == sqlite.AlreadyHealthy {
			fmt.Fprintf(w, "%s: nothing is wrong with it\n", r.Path)
			return
		}
		fmt.Fprintf(w, "%s: repaired\n  what helped: %s\n", r.Path, r.Strategy)
		for _, name := range slices.Sorted(maps.Keys(r.After)) {
			fmt.Fprintf(w, "  %s: %d rows could be read, %d are there now\n", name, r.Before[name], r.After[name])
		}
		fmt.Fprintf(w, "  the damaged file is kept as %s\n  what could not be read is gone from it; `gatewayd backup list` shows the backups that may have it\n", r.Backup)
	})
}

func (c *cli) databaseVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "database", Short: "Change how a database is journalled", Args: verbs, RunE: help}
	cmd.AddCommand(c.readVerb(&cobra.Command{
		Use: "set-journal-mode wal|delete state|board [NAME]", Short: "Change the journal mode of a database that nobody has open", Args: between(2, 3),
		Long: "Change the journal mode of a database that nobody has open: wal lets readers go on beside a writer, delete is for file systems\n" +
			"that cannot carry that.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "board" && len(args) == 2 {
				return usagef("NAME is missing: which board? usage: %s", cmd.UseLine())
			}
			loaded, err := c.load()
			if err != nil {
				return err
			}
			path, label := storePath(loaded.Config), "state.db"
			switch {
			case args[1] == "board" && len(args) == 3:
				var slug kanban.Slug
				if slug, path, err = boardFile(loaded.Kanban.Root, args[2]); err != nil {
					return err
				}
				label = kanban.BoardLabel(slug)
			case args[1] != "state" || len(args) == 3:
				return usagef("%q is no database; name `state` or `board NAME`", args[1])
			}
			change, err := sqlite.SetJournalMode(cmd.Context(), path, label, args[0])
			if problem.Is(err, problem.Invalid) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return c.emit(change, func(w io.Writer) { fmt.Fprintf(w, "%s: %s, was %s\n", change.Path, change.To, change.From) })
		},
	}))
	return cmd
}
