package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// check is one line of the doctor: what was looked at, how it is, and what to do about it.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning or failed
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func ok(name, format string, args ...any) check {
	return check{Name: name, State: "ok", Detail: fmt.Sprintf(format, args...)}
}

func warning(name, remedy, format string, args ...any) check {
	return check{Name: name, State: "warning", Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

// failed takes the remedy out of the error where it has one.
func failed(name string, err error) check {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		bare := *p
		bare.Remedy = ""
		return check{Name: name, State: "failed", Detail: bare.Error(), Remedy: p.Remedy}
	}
	return check{Name: name, State: "failed", Detail: err.Error()}
}

func (c *cli) doctorVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "doctor", Short: "Check everything that the daemon depends on; changes nothing",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := c.examine(cmd.Context())
			if err := c.emit(checks, func(w io.Writer) { printChecks(w, checks) }); err != nil {
				return err
			}
			if slices.ContainsFunc(checks, func(ch check) bool { return ch.State == "failed" }) {
				return codeError(exitFailed)
			}
			return nil
		},
	})
}

func printChecks(w io.Writer, checks []check) {
	signs := map[string]string{"ok": "✓", "warning": "!", "failed": "✗"}
	table(w, func(row func(...any)) {
		for _, ch := range checks {
			row(signs[ch.State]+" "+ch.Name, ch.Detail)
			if ch.Remedy != "" {
				row("", "remedy: "+ch.Remedy)
			}
		}
	})
}

// examine runs every check. Without a readable configuration there is nothing else to look at.
func (c *cli) examine(ctx context.Context) []check {
	loaded, err := c.load()
	if err != nil {
		return []check{failed("config", err)}
	}
	checks := []check{ok("config", "%s", loaded.Path)}
	for _, w := range loaded.Warnings {
		checks = append(checks, warning("config", "", "%s", w))
	}
	if err := mustBeDir("home ", loaded.Home); err != nil {
		return append(checks, failed("home", err))
	}
	checks = append(checks, checkHome(loaded.Config), checkDaemon(loaded.Config), checkSpace(loaded.Config), checkKey(loaded.Config), checkModel(ctx, loaded))
	checks = append(checks, examineVolumes(loaded.Config)...)
	checks = append(checks, checkLanes(loaded)...)
	checks = append(checks, checkFile(ctx, "state.db", storePath(loaded.Config), backupDir(loaded.Config), "sessions", "prompt_hash"))
	checks = append(checks, checkBackups(loaded.Config))
	checks = append(checks, checkBeside(loaded.Config)...)
	return append(checks, checkBoards(ctx, loaded.Config)...)
}

func checkHome(cfg config.Config) check {
	info, err := os.Stat(cfg.Home)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return warning("home", "start `gatewayd` or run `gatewayd init`", "%s does not exist yet", cfg.Home)
	case err != nil:
		return failed("home", err)
	}
	if err := unix.Access(cfg.Home, unix.W_OK|unix.X_OK); err != nil {
		return check{Name: "home", State: "failed", Detail: fmt.Sprintf("%s cannot be written by this user: %v", cfg.Home, err), Remedy: "mount it writable, change its owner, or give another --home"}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return warning("home", "chmod 700 "+cfg.Home, "%s is open to other users (mode %04o)", cfg.Home, info.Mode().Perm())
	}
	mount, err := procfs.MountOf(cfg.Home)
	if err != nil {
		return ok("home", "%s", cfg.Home)
	}
	return ok("home", "%s on %s", cfg.Home, mount.FSType)
}

func checkDaemon(cfg config.Config) check {
	holder, held, err := config.HolderOf(cfg.Home)
	switch {
	case err != nil:
		return failed("daemon", err)
	case !held:
		return warning("daemon", "gatewayd --foreground", "is not running")
	}
	return ok("daemon", "%v", holder)
}

// checkSpace warns below what a WAL and a checkpoint may need at once.
func checkSpace(cfg config.Config) check {
	var fs unix.Statfs_t
	if err := unix.Statfs(existing(cfg.Home), &fs); err != nil {
		return failed("disk", err)
	}
	free := int64(fs.Bavail) * int64(fs.Bsize)
	if free < 256<<20 {
		return warning("disk", "free some space: writes are refused when it is full", "%d MiB free", free>>20)
	}
	return ok("disk", "%d MiB free", free>>20)
}

// existing is the nearest directory that is there.
func existing(path string) string {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	return path
}

func checkKey(cfg config.Config) check {
	_, err := config.ReadAPIKey(cfg.Home)
	switch {
	case problem.Is(err, problem.NotFound):
		return warning("api.key", "the first start makes it", "does not exist yet")
	case err != nil:
		return failed("api.key", err)
	}
	return ok("api.key", "is there")
}

func checkModel(ctx context.Context, loaded config.Loaded) check {
	model, how := newModels(loaded, nil, nil).choose(ctx)
	if model.Describe().Offline {
		return warning("model", "set model.base_url and model.name", "%s", how)
	}
	about := model.Describe()
	return ok("model", "%s: %s; %s", about.Name, how, about.Timeouts)
}

func checkLanes(loaded config.Loaded) []check {
	lanes, err := worker.NewLanes(loaded.Kanban, loaded.KeyVariables()...)
	if err != nil {
		return []check{failed("lanes", err)}
	}
	var checks []check
	for _, name := range slices.Sorted(maps.Keys(loaded.Kanban.Lanes)) {
		lane, _ := lanes.Lookup(name)
		if program := lane.MissingProgram(loaded.Environ); program != "" {
			checks = append(checks, check{Name: "lane " + name, State: "failed", Detail: program + " " + lane.MissingWhat(program), Remedy: lane.MissingRemedy(program)})
			continue
		}
		checks = append(checks, ok("lane "+name, "%s", lane.Preset))
	}
	return checks
}

func checkBoards(ctx context.Context, cfg config.Config) []check {
	if _, err := os.Stat(cfg.Kanban.Root); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := mustBeDir("board root ", cfg.Kanban.Root); err != nil {
		return []check{failed("boards", err)}
	}
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if err != nil {
		return []check{failed("boards", err)}
	}
	defer root.Close()
	boards, err := root.Boards()
	if err != nil {
		return []check{failed("boards", err)}
	}
	var checks []check
	for _, b := range boards {
		checks = append(checks, checkFile(ctx, "board "+string(b.Slug), root.DBPath(b.Slug), backupDir(cfg), "tasks", "title"))
		checks = append(checks, checkCaptures("board "+string(b.Slug), root.DBPath(b.Slug))...)
	}
	return checks
}

// checkFile reads a database through a connection of its own, which changes nothing: a file in rollback mode stays in
// it, because that is the mode that is asked for, and one in WAL is never taken out of it. It also tells a file of
// another program from ours, by a column that ours has.
func checkFile(ctx context.Context, name, path, backups, table, column string) check {
	info, err := os.Lstat(path)
	if b, had := sqlite.BackupOf(backups, path, name); errors.Is(err, os.ErrNotExist) && had {
		return check{Name: name, State: "failed", Detail: path + " is gone, and a backup of it is in " + b.Dir, Remedy: "gatewayd restore " + b.Dir}
	}
	if _, gone := os.Stat(path); err == nil && info.Mode()&os.ModeSymlink != 0 && errors.Is(gone, os.ErrNotExist) {
		return check{Name: name, State: "failed", Detail: path + " is a link to nothing", Remedy: "mount or restore what it leads to, or remove the link"}
	}
	f, err := sqlite.Open(ctx, sqlite.Options{Path: path, Label: name, Backups: backups, Journal: sqlite.JournalConfig{Mode: "delete"}, Log: slog.New(slog.DiscardHandler)})
	if problem.Is(err, problem.NotFound) {
		return ok(name, "not made yet")
	}
	if err != nil {
		return failed(name, err)
	}
	defer f.Close()
	found, foreign := "", false
	err = f.Read(ctx, func(c *sqlite.Conn) error {
		if _, err := c.Row("SELECT NOT EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = ?)", []any{table, column}, &foreign); err != nil {
			return err
		}
		_, err := c.Row("PRAGMA quick_check(1)", nil, &found)
		return err
	})
	switch {
	case err != nil:
		return failed(name, err)
	case foreign:
		return check{Name: name, State: "failed", Detail: path + " is a database of another program: it has no " + table + "." + column, Remedy: "move it away, or " + sqlite.PutBack}
	case found != "ok":
		return check{Name: name, State: "failed", Detail: path + " is damaged: " + sqlite.Fault(found), Remedy: sqlite.RepairRemedy(name)}
	}
	return ok(name, "whole, journal mode %s", f.Journal().Mode)
}
