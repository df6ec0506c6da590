package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

func storePath(cfg config.Config) string { return filepath.Join(cfg.Home, "state.db") }

// storeOptions say how this home's state.db is opened. Only the daemon and its workers make one; reading does not.
func storeOptions(cfg config.Config, log *slog.Logger) sessiondb.Options {
	return sessiondb.Options{Path: storePath(cfg), Journal: journal(cfg.Database), Log: log}
}

// boardOptions say how a board is opened. It must exist: boards are made by createBoard and nothing else.
func boardOptions(cfg config.Config, root *kanban.Root, slug kanban.Slug) kanban.Options {
	return kanban.Options{Path: root.DBPath(slug), Slug: slug, Journal: journal(cfg.Database), Patience: cfg.Kanban.BusyPatience}
}

func journal(cfg config.Database) sqlite.JournalConfig {
	return sqlite.JournalConfig{Mode: cfg.JournalMode, Force: cfg.JournalModeForce == "wal"}
}

func modelOptions(loaded config.Loaded, log *slog.Logger) provider.Options {
	m := loaded.Model
	options := provider.Options{
		BaseURL: m.BaseURL, Name: m.Name, Key: m.APIKey.Reveal(), ContextLength: m.ContextLength,
		RequestTimeout: m.RequestTimeout, FirstToken: m.FirstTokenTimeout, Stall: m.StallTimeout, MaxRetries: m.MaxRetries, Log: log,
	}
	if loaded.Origins["model.first_token_timeout"].Source == config.FromDefault {
		options.FirstToken = 0 // the provider gives a server on this machine more time than one in a cloud
	}
	return options
}

// chooseModel gives the model that answers and how it was chosen.
func chooseModel(ctx context.Context, loaded config.Loaded, log *slog.Logger) (provider.Model, string) {
	if loaded.Model.Provider == "offline" {
		return provider.Offline(), "model.provider: offline"
	}
	return provider.Discover(ctx, modelOptions(loaded, log))
}

// gatewayOptions say how conversations are held in this home, in the daemon and in a worker of its own: the same
// tools, the same limits, the same permission to use the terminal.
func gatewayOptions(loaded config.Loaded, starter tool.Starter, store *sessiondb.Store) (gateway.Options, error) {
	dir := loaded.Tools.Workdir
	if dir == "" {
		dir = filepath.Join(loaded.Home, "workspace")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return gateway.Options{}, &problem.Error{Kind: problem.Config, Thing: "tools.workdir " + dir, What: "cannot be used", Remedy: "name a directory that can be written", Err: err}
	}
	terminal := tool.NewTerminal(tool.TerminalOptions{
		Reaper: starter, Env: commandEnv(loaded), Dir: dir, Timeout: loaded.Tools.TerminalTimeout, OutputMax: loaded.Tools.OutputMaxBytes,
	})
	return gateway.Options{
		Store: store, Tools: tool.NewSet(terminal, tool.ReadFile{Dir: dir}, tool.SessionSearch{Store: store}), Terminal: tool.Mode(loaded.Tools.Terminal), Dir: dir,
		SystemPrompt: loaded.Agent.SystemPrompt, MaxIterations: loaded.Agent.MaxIterations,
		StallTimeout: loaded.Agent.TurnStallTimeout, Grace: loaded.Agent.ShutdownGrace,
	}, nil
}

// commandEnv is what a command of the terminal tool sees: names that somebody thought of, and nothing else that the
// daemon was started with.
func commandEnv(loaded config.Loaded) []string {
	return append(loaded.Environ.Allow("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR"),
		"GATEWAYD_HOME="+loaded.Home)
}

// createBoard makes a board and its file.
func createBoard(ctx context.Context, cfg config.Config, root *kanban.Root, slug kanban.Slug, meta kanban.Meta) (kanban.Info, error) {
	info, err := root.Create(slug, meta)
	if err != nil {
		return kanban.Info{}, err
	}
	options := boardOptions(cfg, root, slug)
	options.Create = true
	b, err := kanban.Open(ctx, options)
	if err != nil {
		return kanban.Info{}, err
	}
	return info, b.Close()
}

// dial gives a client of the daemon of this home. The address that the daemon announced wins over the
// configured one, because it may listen on a free port.
func (c *cli) dial() (*client, error) {
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	addr := loaded.API.Addr
	if holder, held, err := config.HolderOf(loaded.Home); err == nil && held && holder.Addr != "" && c.addr == "" {
		addr = holder.Addr
	}
	key, err := config.ReadAPIKey(loaded.Home)
	if problem.Is(err, problem.NotFound) {
		return nil, notRunning("home "+loaded.Home, "start it with `gatewayd --foreground`, or name its directory with --home")
	}
	if err != nil {
		return nil, err
	}
	return newClient("http://"+addr, key.Reveal()), nil
}
