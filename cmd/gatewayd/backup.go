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
	var secrets bool
	cmd := c.readVerb(&cobra.Command{
		Use: "backup", Short: "Copy state.db and every board, verified, beside the running daemon", Args: verbs,
		Long: "Copy state.db and every board. A copy gets its name when its pages and rows were checked; of each database the newest\nbackup.keep copies stay. The daemon may run or not.\n\nThe files of cards, board.json and config.yaml are copied along. Keys are not, unless --with-secrets says so: .env, api.key,\nkeys.json, runs.secret and the file of model.api_key_file if it is in the home. Such a copy is as secret as they are.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			kept := to == ""
			if kept {
				to = backupDir(loaded.Config)
			}
			made, failed := backupFiles(cmd.Context(), loaded.Config, to, secrets)
			if kept && (len(made) > 0 || failed != nil) {
				failed = joined(loaded.Home, failed)
			}
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
	cmd.Flags().BoolVar(&secrets, "with-secrets", false, "copy the home's keys along, for a new machine")
	cmd.Flags().StringVar(&to, "to", "", "directory to keep them in (default backup.dir)")
	cmd.AddCommand(c.backupListVerb())
	return cmd
}

// backupFiles copies what is there. One that fails does not keep the others from being copied.
func backupFiles(ctx context.Context, cfg config.Config, to string, secrets bool) (made []sqlite.Backup, failed error) {
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
	store := sessiondb.BackupOptions(to, cfg.Backup.Keep)
	store.Beside = homeFiles(cfg, secrets)
	add(storePath(cfg), "state.db", store)
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
		Use: "restore BACKUP...", Short: "Put backups in their databases' places", Args: atLeast(1),
		Long: "Put a backup in its database's place, in this home. BACKUP is a directory that `gatewayd backup` made, or one that\nholds such directories: of each database the newest is taken then. Nothing may have the database open, the daemon least.\nThe file that is replaced is kept beside it. Files of the home and of cards come back where none is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			for _, dir := range chosenBackups(args) {
				err = errors.Join(err, c.restoreOne(cmd.Context(), loaded.Config, dir, dry))
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would happen and change nothing")
	return cmd
}

func (c *cli) restoreOne(ctx context.Context, cfg config.Config, dir string, dry bool) error {
	o, err := restoreOptions(cfg, dir)
	if err != nil {
		return err
	}
	o.DryRun = dry
	r, err := sqlite.Restore(ctx, o)
	if err == nil && !dry && o.Files != "" {
		err = repoint(ctx, cfg, r)
	}
	if err != nil {
		return err
	}
	return c.emit(r, func(w io.Writer) { printRestore(w, r) })
}

// repoint lets the rows of a restored board find their files, also where the home is another one.
func repoint(ctx context.Context, cfg config.Config, r sqlite.RestoreReport) error {
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	name, _ := strings.CutPrefix(r.Backup.Manifest.Database, kanban.BoardLabel(""))
	return root.Repoint(ctx, kanban.Slug(name), r.Backup.Manifest.Path)
}

// chosenBackups are those that are named; for a directory of backups, the newest of each database that was no upgrade's copy.
func chosenBackups(args []string) (list []string) {
	for _, dir := range args {
		all, _ := sqlite.Backups(dir)
		if len(all) == 0 {
			list = append(list, dir)
		}
		taken := map[string]bool{}
		for _, b := range all {
			if !b.Manifest.Upgrade && !taken[b.Manifest.Database] {
				taken[b.Manifest.Database] = true
				list = append(list, b.Dir)
			}
		}
	}
	return list
}

// restoreOptions finds the place in this home that a backup belongs to: the home may have moved since.
func restoreOptions(cfg config.Config, dir string) (sqlite.RestoreOptions, error) {
	b, err := sqlite.ReadBackup(dir)
	if err != nil {
		return sqlite.RestoreOptions{}, err
	}
	o := sqlite.RestoreOptions{Backup: dir, Label: b.Manifest.Database}
	if o.Label == "state.db" {
		o.Path, o.Newest, o.Beside = storePath(cfg), sessiondb.SchemaVersion, besideHome(cfg, b.Manifest.Beside)
		return o, nil
	}
	name, isBoard := strings.CutPrefix(o.Label, kanban.BoardLabel(""))
	slug, err := kanban.ParseSlug(name)
	if !isBoard || err != nil {
		return o, &problem.Error{Kind: problem.Invalid, Thing: "backup " + dir, What: fmt.Sprintf("is of %q, which has no place in a home", o.Label), Fate: "nothing was changed", Remedy: "name another one"}
	}
	if err := os.MkdirAll(cfg.Kanban.Root, 0o700); err != nil { // of a new machine
		return o, unusable("board root "+cfg.Kanban.Root, "check owner and permissions", err)
	}
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if err != nil {
		return o, err
	}
	defer root.Close()
	o.Files = root.AttachmentsDir(slug)
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
	_, err := lent(d.store, ctx, func(s *sessiondb.Store) (sqlite.Backup, error) {
		return s.Backup(ctx, dir, keep, homeFiles(d.config.Config, false)...)
	})
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

// keepBackups makes a round at backup.at each day, or every backup.every, counted from the newest backup there is, so that a daemon which is
// started often does not make one each time. It returns when ctx ends. A round that fails is logged and tried again
// when the next one is due.
func (d *daemon) keepBackups(ctx context.Context) {
	every, at := d.config.Backup.Every, d.config.Backup.At
	if every <= 0 && at == "" {
		return
	}
	for last := d.lastBackup(); ; last = time.Now() {
		next := nextRound(time.Now(), last, every, at)
		d.nextBackup.Store(&next)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := d.backupRound(ctx); ctx.Err() == nil {
			d.noteRound(err)
		}
	}
}

// noteRound tells of a round that failed, and of the first that is good again.
func (d *daemon) noteRound(failed error) {
	dir := backupDir(d.config.Config)
	before := readBackupNote(d.config.Home)
	switch {
	case failed != nil:
		d.log.Error("backup failed", "path", dir, "error", failed)
	case before.Error != "":
		d.log.Info("backups are made again", "path", dir)
	}
	if err := noteBackup(d.config.Home, failed); err != nil {
		d.log.Warn("how the backup went cannot be noted", "path", notePath(d.config.Home), "error", err)
	}
}

// lastBackup is when the newest backup of the store was made.
func (d *daemon) lastBackup() time.Time {
	made, _ := sqlite.CopiesIn(backupDir(d.config.Config))
	b, _ := made.Scheduled(d.store.path, "state.db")
	return b.Manifest.MadeAt
}

// unlikelyNew warns of a home without a state.db of which there are backups: it is made anew, as in an empty home, and the
// person who did not mean that should hear of it.
func unlikelyNew(cfg config.Config) string {
	path := storePath(cfg)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	made, _ := sqlite.CopiesIn(backupDir(cfg))
	b, found := made.Of(path, "state.db")
	if !found {
		return ""
	}
	return fmt.Sprintf("%s was not there and is made anew, but there is a backup of it: to have that, stop the daemon, then `gatewayd restore %s`", path, b.Dir)
}
