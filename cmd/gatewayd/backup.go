package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// backupDir is where backups are kept.
func backupDir(cfg config.Config) string {
	if cfg.Backup.Dir != "" {
		return cfg.Backup.Dir
	}
	return filepath.Join(cfg.Home, "backups")
}

func (c *cli) backupVerb() *cobra.Command {
	var to string
	cmd := c.readVerb(&cobra.Command{
		Use: "backup", Short: "Copy state.db and every board, verified, beside the running daemon", Args: verbs,
		Long: "Copy state.db and every board. A copy gets its name when its pages and rows were checked; of each database the newest\nbackup.keep copies stay. The daemon may run or not.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			if to == "" {
				to = backupDir(loaded.Config)
			}
			made, failed := backupFiles(cmd.Context(), loaded.Config, to)
			if len(made) == 0 && failed == nil {
				return &problem.Error{Kind: problem.NotFound, Thing: "home " + loaded.Home, What: "has nothing to back up yet", Remedy: "start one: gatewayd chat hello"}
			}
			err = c.emit(map[string]any{"backups": made}, func(w io.Writer) {
				for _, b := range made {
					fmt.Fprintf(w, "%s: %s\n  %s, %d bytes, checked\n", line(b.Manifest.Database), b.Dir, rowsOf(b.Manifest.Counts), b.Manifest.Bytes)
				}
			})
			return errors.Join(failed, err)
		},
	})
	cmd.Flags().StringVar(&to, "to", "", "directory to keep them in (default backup.dir)")
	cmd.AddCommand(c.backupListVerb())
	return cmd
}

// backupFiles copies what is there. One that fails does not keep the others from being copied.
func backupFiles(ctx context.Context, cfg config.Config, to string) (made []sqlite.Backup, failed error) {
	add := func(path, label string, o sqlite.BackupOptions) {
		b, err := sqlite.BackupFile(ctx, path, label, o)
		if problem.Is(err, problem.NotFound) {
			return // a home without conversations, a board without a file
		}
		if b.Dir != "" {
			made = append(made, b)
		}
		failed = errors.Join(failed, err)
	}
	add(storePath(cfg), "state.db", sessiondb.BackupOptions(to, cfg.Backup.Keep))
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if problem.Is(err, problem.NotFound) {
		return made, failed
	}
	if err != nil {
		return made, errors.Join(failed, err)
	}
	defer root.Close()
	boards, err := root.AllBoards()
	for _, b := range boards {
		add(root.DBPath(b.Slug), kanban.BoardLabel(b.Slug), root.BackupOptions(b.Slug, to, cfg.Backup.Keep))
	}
	return made, errors.Join(failed, err)
}

func (c *cli) backupListVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "list", Short: "List the backups that there are, newest first", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			all, err := sqlite.Backups(backupDir(loaded.Config))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return unusable("backup directory "+backupDir(loaded.Config), "check owner and permissions", err)
			}
			c.none(len(all), "no backups in %s; make one with `gatewayd backup`", backupDir(loaded.Config))
			return c.emit(map[string]any{"backups": all}, func(w io.Writer) {
				table(w, func(row func(...any)) {
					row("DATABASE", "MADE", "WHY", "ROWS", "BACKUP")
					for _, b := range all {
						row(b.Manifest.Database, when(b.Manifest.MadeAt), whyMade(b.Manifest), rowsOf(b.Manifest.Counts), b.Dir)
					}
				})
			})
		},
	})
}

// whyMade tells the copies that an upgrade kept.
func whyMade(m sqlite.BackupManifest) string {
	switch {
	case m.Upgrade && m.UserVersion > 0:
		return fmt.Sprintf("upgrade from schema %d", m.UserVersion)
	case m.Upgrade:
		return "upgrade"
	}
	return "backup"
}

// rowsOf says how many rows of what.
func rowsOf(counts map[string]int64) string {
	words := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[name], strings.TrimPrefix(name, "task_")))
	}
	if len(words) == 0 {
		return "no rows"
	}
	return strings.Join(words, ", ")
}

func (c *cli) restoreVerb() *cobra.Command {
	var dry bool
	cmd := c.readVerb(&cobra.Command{
		Use: "restore BACKUP", Short: "Put a backup in its database's place", Args: exactly(1),
		Long: "Put a backup in its database's place, in this home. BACKUP is a directory that `gatewayd backup` made. Nothing may have the\ndatabase open, the daemon least. The file that is replaced is kept beside it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			o, err := restoreOptions(loaded.Config, args[0])
			if err != nil {
				return err
			}
			o.DryRun = dry
			r, err := sqlite.Restore(cmd.Context(), o)
			if err != nil {
				return err
			}
			return c.emit(r, func(w io.Writer) { printRestore(w, r) })
		},
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would happen and change nothing")
	return cmd
}

// restoreOptions finds the place in this home that a backup belongs to: the home may have moved since.
func restoreOptions(cfg config.Config, dir string) (sqlite.RestoreOptions, error) {
	b, err := sqlite.ReadBackup(dir)
	if err != nil {
		return sqlite.RestoreOptions{}, err
	}
	o := sqlite.RestoreOptions{Backup: dir, Label: b.Manifest.Database}
	if o.Label == "state.db" {
		o.Path, o.Newest = storePath(cfg), sessiondb.SchemaVersion
		return o, nil
	}
	name, isBoard := strings.CutPrefix(o.Label, kanban.BoardLabel(""))
	slug, err := kanban.ParseSlug(name)
	if !isBoard || err != nil {
		return o, &problem.Error{Kind: problem.Invalid, Thing: "backup " + dir, What: fmt.Sprintf("is of %q, which has no place in a home", o.Label), Fate: "nothing was changed", Remedy: "name another one"}
	}
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if err != nil {
		return o, err
	}
	defer root.Close()
	o.Path, o.Beside = root.DBPath(slug), map[string]string{filepath.Base(root.MetaPath(slug)): root.MetaPath(slug)}
	return o, nil
}

func printRestore(w io.Writer, r sqlite.RestoreReport) {
	m := r.Backup.Manifest
	done := map[bool]string{true: "would be restored", false: "restored"}[r.DryRun]
	fmt.Fprintf(w, "%s %s from %s, made %s\n", line(m.Database), done, r.Backup.Dir, when(m.MadeAt))
	fmt.Fprintf(w, "  rows in the backup: %s\n", rowsOf(r.Then))
	switch {
	case r.Trouble != "":
		fmt.Fprintf(w, "  rows before: cannot be counted, the file %s\n", text(r.Trouble))
	case r.Now != nil:
		fmt.Fprintf(w, "  rows before: %s\n", rowsOf(r.Now))
	}
	if len(r.Lost) > 0 {
		fmt.Fprintf(w, "  only in the file that is replaced: %s\n", rowsOf(r.Lost))
	}
	if r.Held != "" {
		fmt.Fprintf(w, "  not possible now: it %s\n", text(r.Held))
	}
	if m.Database == "state.db" && m.UserVersion < sessiondb.SchemaVersion {
		fmt.Fprintf(w, "  it has schema version %d: the next start of this gatewayd brings it to %d; to stay with an older one, start that one\n", m.UserVersion, sessiondb.SchemaVersion)
	}
	if r.Aside != "" {
		fmt.Fprintf(w, "  the file that was replaced is kept in %s\n", r.Aside)
	}
}

// backupRound is one backup of every open file of the daemon, through the handles that it shares.
func (d *daemon) backupRound(ctx context.Context) error {
	dir, keep := backupDir(d.config.Config), d.config.Backup.Keep
	_, err := lent(d.store, ctx, func(s *sessiondb.Store) (sqlite.Backup, error) { return s.Backup(ctx, dir, keep) })
	boards, listed := d.root.AllBoards()
	err = errors.Join(err, listed)
	for _, b := range boards {
		err = errors.Join(err, d.backupBoard(ctx, b.Slug, dir, keep))
	}
	return err
}

// backupBoard passes over a board that is disabled, and says so when that begins or its reason changes.
func (d *daemon) backupBoard(ctx context.Context, slug kanban.Slug, dir string, keep int) error {
	if shut := d.dispatcher.Disabled(slug); shut != nil {
		if d.passedOver[slug] != shut.Error() {
			d.log.Warn("board is not backed up while it is disabled", "board", slug, "path", d.root.DBPath(slug), "error", shut)
		}
		d.passedOver[slug] = shut.Error()
		return nil
	}
	delete(d.passedOver, slug)
	ref, err := d.boards.Acquire(ctx, d.root.DBPath(slug))
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ref.Release()
	board, ok := ref.Handle()
	if !ok {
		return nil // closed a moment ago: the next round has it
	}
	_, err = board.Backup(ctx, d.root.BackupOptions(slug, dir, keep))
	return err
}

// firstBackup is how long a daemon runs before its first backup at the earliest: a start has other work.
const firstBackup = 5 * time.Minute

// keepBackups makes a round every backup.every, counted from the newest backup there is, so that a daemon which is
// started often does not make one each time. It returns when ctx ends. A round that fails is logged and tried again
// when the next one is due.
func (d *daemon) keepBackups(ctx context.Context) {
	every := d.config.Backup.Every
	if every <= 0 {
		return
	}
	for wait := max(firstBackup, time.Until(d.lastBackup().Add(every))); ; wait = every {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := d.backupRound(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("backup failed", "path", backupDir(d.config.Config), "error", err)
		}
	}
}

// lastBackup is when the newest backup of the store was made. A manifest has the path without links.
func (d *daemon) lastBackup() time.Time {
	all, err := sqlite.Backups(backupDir(d.config.Config))
	if err != nil {
		return time.Time{}
	}
	for _, b := range all {
		if b.Manifest.Path == d.store.path {
			return b.Manifest.MadeAt
		}
	}
	return time.Time{}
}

// unlikelyNew warns of a home without a state.db of which there are backups: it is made anew, as in an empty home, and the
// person who did not mean that should hear of it.
func unlikelyNew(cfg config.Config) string {
	path := storePath(cfg)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	b, found := sqlite.BackupOf(backupDir(cfg), path, "state.db")
	if !found {
		return ""
	}
	return fmt.Sprintf("%s was not there and is made anew, but there is a backup of it: to have that, stop the daemon, then `gatewayd restore %s`", path, b.Dir)
}
