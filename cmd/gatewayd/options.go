package main

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

func storePath(cfg config.Config) string { return filepath.Join(cfg.Home, "state.db") }

// storeOptions say how this home's state.db is opened. Only the daemon and its workers make one; reading does not.
func storeOptions(cfg config.Config, log *slog.Logger) sessiondb.Options {
	return sessiondb.Options{Path: storePath(cfg), Backups: backupDir(cfg), Journal: journal(cfg.Database), Log: log}
}

// boardOptions say how a board that exists is opened; who makes one sets Create.
func boardOptions(cfg config.Config, root *kanban.Root, slug kanban.Slug, log *slog.Logger) kanban.Options {
	return kanban.Options{
		Path: root.DBPath(slug), Slug: slug, Attachments: root.AttachmentsDir(slug), Workspaces: root.WorkspacesDir(slug),
		Backups: backupDir(cfg), Journal: journal(cfg.Database), AutoSubscribe: cfg.Kanban.AutoSubscribe, Patience: cfg.Kanban.BusyPatience, Log: log,
		TerminalTimeout: cfg.Tools.TerminalTimeout,
	}
}

func journal(cfg config.Database) sqlite.JournalConfig {
	return sqlite.JournalConfig{Mode: cfg.JournalMode, Force: cfg.JournalModeForce == "wal"}
}

// conversations is a store that a gateway speaks through: one opened for this process, or the daemon's.
type conversations interface {
	gateway.Store
	gateway.ApprovalStore
	tool.Finder
	tool.Past
}

// gatewayOptions say how conversations are held in this home, in the daemon and in a worker of its own: the same
// tools, the same limits, the same permission to use the terminal. Who answers is added by the caller.
func gatewayOptions(loaded config.Loaded, starter tool.Starter, store conversations) (gateway.Options, error) {
	dir := loaded.Tools.Workdir
	if dir == "" {
		dir = filepath.Join(loaded.Home, "workspace")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return gateway.Options{}, unusable("tools.workdir "+dir, "name a directory that can be written", err)
	}
	terminal := tool.NewTerminal(terminalOptions(loaded, starter, dir))
	return gateway.Options{
		Store: store, Dir: dir, Spill: spillOf(loaded),
		Tools: tool.NewSet(append(filesOf(loaded, dir).Tools(), terminal, terminal.Process(), tool.SessionSearch{Store: store}, tool.NewTodo(store))...).Redacting(secretsOf(loaded)...),
		Self:  selfOf(loaded, dir), SystemPrompt: loaded.Agent.SystemPrompt, Grace: loaded.Agent.ShutdownGrace,
		Resume: orNever(loaded.Agent.ResumeAttempts), ResumeFresh: loaded.Agent.ResumeWithin,
	}.With(tuningOf(loaded)), nil
}

// orNever reads a count of the configuration, where 0 is none, as an option, where 0 is the default.
func orNever(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func terminalOptions(loaded config.Loaded, starter tool.Starter, dir string) tool.TerminalOptions {
	return tool.TerminalOptions{
		Reaper: starter, Env: commandEnv(loaded), Dir: dir, State: filepath.Join(loaded.Home, "shells"),
		Timeout: loaded.Tools.TerminalTimeout, OutputMax: loaded.Tools.OutputMaxBytes,
		BackgroundTimeout: loaded.Tools.BackgroundTimeout, BackgroundMax: loaded.Tools.BackgroundMax,
		Nameless: loaded.Worker != nil, // nobody reads a worker's conversation: what becomes of its cards is its card's to say
	}
}

// filesOf says which files a model may read and write here. What is gatewayd's own is closed to it.
func filesOf(loaded config.Loaded, dir string) *tool.Files {
	return tool.NewFiles(tool.FilesOptions{
		Dir: dir, WriteRoot: loaded.Tools.WriteRoot, Homes: []string{loaded.Home, loaded.Kanban.Root},
		Denied: []string{loaded.Path, loaded.Model.APIKeyFile}, Spill: spillOf(loaded),
	})
}

// spillOf is where this home keeps results that are too large for a conversation.
func spillOf(loaded config.Loaded) *tool.Spill {
	return &tool.Spill{Dir: filepath.Join(loaded.Home, "spill"), MaxAge: loaded.Tools.SpillMaxAge, MaxBytes: loaded.Tools.SpillMaxBytes}
}

// commandEnv is what a command of the terminal tool sees: names that somebody thought of, and nothing else that the
// daemon was started with. A worker's command may speak for its card, whose board asks the fence each time.
func commandEnv(loaded config.Loaded) []string {
	env := append(loaded.Environ.Allow("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR"),
		"GATEWAYD_HOME="+loaded.Home)
	if loaded.Worker == nil {
		return env
	}
	return append(env, loaded.Environ.Allow("GATEWAYD_KANBAN_TASK", "GATEWAYD_KANBAN_RUN_ID", "GATEWAYD_KANBAN_BOARD", "GATEWAYD_KANBAN_DB",
		"GATEWAYD_KANBAN_WORKSPACE", "GATEWAYD_KANBAN_CLAIM_LOCK", "GATEWAYD_KANBAN_HOME", "GATEWAYD_TASK_FILE")...)
}

// createBoard makes a board and its file.
func createBoard(ctx context.Context, cfg config.Config, root *kanban.Root, slug kanban.Slug, meta kanban.Meta, log *slog.Logger) (kanban.Info, error) {
	if _, err := root.Create(slug, meta); err != nil {
		return kanban.Info{}, err
	}
	options := boardOptions(cfg, root, slug, log)
	options.Create = true
	b, err := kanban.Open(ctx, options)
	if err != nil {
		return kanban.Info{}, err
	}
	if err := b.Close(); err != nil {
		return kanban.Info{}, err
	}
	return root.Lookup(slug) // again: it has a file now
}

// warnings is where a verb's parts say what a person should know; it is a few lines beside the answer, never a log.
func (c *cli) warnings(loaded config.Loaded) *slog.Logger {
	log := loaded.Log
	log.Level, log.Format = "warn", "text"
	return newLogger(log, levelOf(log), c.std.err, false)
}

// mustBeDir refuses what is in the place of a directory before anybody opens it: opening a FIFO would wait for ever.
func mustBeDir(what, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.IsDir() {
		return nil // what is missing or out of reach is said by those who need it
	}
	return &problem.Error{
		Kind: problem.Config, Thing: what + dir, What: "is not a directory: it is " + kindOfFile(info.Mode()), Fate: "it was left as it is",
		Remedy: "name a directory, or move that away",
	}
}

func kindOfFile(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	}
	return "a special file (" + mode.Type().String() + ")"
}

// unreadable is a file that a person names and that cannot be read.
func unreadable(thing, remedy string, err error) error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: "cannot be read", Fate: "nothing was changed", Remedy: remedy, Err: err}
}

// unusable is a directory of ours that cannot be made or written.
func unusable(thing, remedy string, err error) error {
	return &problem.Error{Kind: problem.Config, Thing: thing, What: "cannot be used", Fate: "nothing was changed", Remedy: remedy, Err: err}
}
