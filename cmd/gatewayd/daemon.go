package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gatewayd/gateway/tool"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/gateway/keys"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/runs"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/logfile"
	"gatewayd/internal/problem"
	"gatewayd/internal/volume"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/notify"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
	"gatewayd/registry"
	"gatewayd/sessiondb"
	"gatewayd/systemd"
)

// daemon is the parts of a running gatewayd, made in the order of the fields and handed to the group by serve.
type daemon struct {
	started    time.Time
	foreground bool
	std        stdio
	asked      chan os.Signal // requests to stop
	config     config.Loaded
	log        *slog.Logger
	notify     *systemd.Notifier
	watchdog   *systemd.Watchdog

	home     *config.HomeLock
	logs     logfile.Writer // from when the home is held
	relay    *logfile.Relay // to standard error
	diary    *lastrun.Diary // nil: it cannot be written
	restart  atomic.Bool    // asked to be started again
	pid      int
	keys     *keys.Store
	signer   worker.Signer
	listener net.Listener
	places   *api.Limited // of the address
	socket   net.Listener // of the home; nil: there is none
	hosts    []string     // names that the certificate is for
	volumes  []volume.Volume

	reaper    *reaper.Reaper
	registry  *registry.Registry
	store     keptStore // held open for the daemon's life
	root      *kanban.Root
	boards    *registry.Kind[*kanban.Board]
	newBoards *registry.Kind[*kanban.Board] // the same files, made where they are missing

	gates      *provider.Gates
	answers    atomic.Pointer[answering]
	tools      *tool.Set
	secrets    secretBook
	gateway    *gateway.Gateway
	approvals  *gateway.Approvals
	runs       *runs.Desk
	servers    *tool.MCP
	dispatcher *dispatch.Dispatcher
	notifier   *notify.Notifier
	targets    *notify.Targets
	lanes      []string
	server     *http.Server

	nextBackup atomic.Pointer[time.Time] // nil: none is planned
	passedOver map[kanban.Slug]string    // boards that the last backup did not open, with the reason

	apiStops, dispatchStops chan struct{} // closed when that part has been told to stop
	talked                  chan struct{} // closed when the conversations have drained

	deciding  sync.Mutex
	decisions []decision

	read      func() (config.Loaded, error) // the configuration as it is on disk now
	live      atomic.Pointer[config.Loaded] // the settings in force; config is those of the start
	reloading sync.Mutex
	level     *slog.LevelVar
	reloads   sync.WaitGroup
	refused   string         // what was wrong with the configuration when it was read last
	hangups   chan os.Signal // requests to read the configuration again
	dumps     chan os.Signal // requests to write the stacks down

	starts *lastrun.Starts // nil: they cannot be written
	leave  *leave          // from when it was asked to stop
	exit   func(code int)
}

// build makes every part and starts none. What it opened is closed again when a later part refuses.
func (c *cli) build(ctx context.Context) (built *daemon, err error) {
	d := &daemon{
		started: time.Now(), foreground: c.foreground, std: c.std, asked: make(chan os.Signal, 2), hangups: make(chan os.Signal, 1), read: c.load,
		dumps: make(chan os.Signal, 1), exit: os.Exit,
		apiStops: make(chan struct{}), dispatchStops: make(chan struct{}), talked: make(chan struct{}), passedOver: map[kanban.Slug]string{},
	}
	c.std.environ = config.Environ(c.std.environ).WithoutWorker() // a daemon is nobody's worker, whoever started it
	if d.config, err = c.load(); err != nil {
		return nil, err
	}
	inForce := d.config
	d.live.Store(&inForce)
	d.level = levelOf(d.config.Log)
	d.log, d.relay = relayed(d.config.Log, d.level, c.std.err, c.foreground)
	d.log, d.std.err = alsoInto(d.log, &d.logs, d.level), d.relay
	d.notify = systemd.NewNotifier()
	d.watchdog = systemd.NewWatchdog(d.notify, d.log)
	d.watchdog.OnWedged(d.giveUp)
	signal.Notify(d.hangup(), syscall.SIGHUP) // which would end a process that nobody told what to do with it
	signal.Notify(d.dumps, syscall.SIGUSR2)
	ctx, asked := d.listenEarly(ctx)
	defer func() {
		if stop := asked(); stop != nil {
			err = errors.Join(stop, d.starts.Clean())
		}
		if err != nil {
			built = nil
			d.abandon()
		}
	}()
	for _, part := range []func(context.Context) error{
		d.boundMemory, d.hold, d.calm, d.judgeVolumes, d.bind, d.makeReaper, d.openFiles, d.chooseModel, d.makeGateway, d.makeDispatcher, d.makeNotifier, d.makeAPI,
	} {
		if err := cmp.Or(part(ctx), ctx.Err()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// decide notes what was settled of a thing; what was settled before is replaced.
func (d *daemon) decide(thing, value, why string) {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	next := decision{thing, value, why}
	for i, before := range d.decisions {
		if before.Thing == thing {
			d.decisions[i] = next
			return
		}
	}
	d.decisions = append(d.decisions, next)
}

func (d *daemon) decided() []decision {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	return slices.Clone(d.decisions)
}

// hold takes the home for this process.
func (d *daemon) hold(context.Context) error {
	self, err := config.Self()
	if err != nil {
		return err
	}
	d.pid = self.PID
	if d.home, err = config.HoldHome(d.config.Home, self); err != nil {
		return heldElsewhere(err)
	}
	d.decide("home", d.config.Home, from(d.config.Origins["home"]))
	return d.openKeys()
}

// openKeys reads who may come in. What runs were signed with until now is the text of api.key, which is asked before it is anything else.
func (d *daemon) openKeys() (err error) {
	d.logs.Open(d.config.Home)
	before, _ := config.ReadAPIKey(d.config.Home)
	if d.signer, err = worker.KeepSigner(d.config.Home, before.Reveal()); err != nil {
		return err
	}
	if d.keys, err = keys.Open(d.config.Home, d.log); err != nil {
		return err
	}
	created, err := d.keys.Begin(d.home)
	if err != nil {
		return err
	}
	d.decide("API keys", filepath.Join(d.config.Home, keys.FileName), made(created))
	return nil
}

// from says where a value came from.
func from(o config.Origin) string {
	if o.Place == "" {
		return string(o.Source)
	}
	return o.Place
}

func made(created bool) string {
	if created {
		return "the first, made at this start, is in api.key"
	}
	return "found"
}

func (d *daemon) makeReaper(context.Context) (err error) {
	dir := filepath.Join(d.config.Home, "keepers")
	if d.reaper, err = reaper.New(reaper.Options{Dir: dir, Shared: filepath.Join(d.config.Kanban.Root, "keepers"), Log: d.log}); err != nil {
		return unusable("directory "+dir, "move away what is in its place, or give another --home", err)
	}
	return nil
}

// openFiles opens state.db and the boards through the one registry. A board that cannot be opened is the
// dispatcher's to report: the other boards and the conversations go on.
func (d *daemon) openFiles(ctx context.Context) (err error) {
	d.registry = registry.New(registry.Options{Log: d.log})
	if warning := unlikelyNew(d.config.Config); warning != "" {
		d.config.Warnings = append(d.config.Warnings, warning)
	}
	var made atomic.Bool // a store that was here once is never made anew: it comes back, or a person decides
	stores := registry.For(d.registry, func(ctx context.Context, _ string) (*sessiondb.Store, error) {
		options := storeOptions(d.config.Config, d.log)
		options.Heal, options.Existing = true, made.Load()
		store, err := sessiondb.Open(ctx, options)
		if err == nil {
			made.Store(true)
		}
		return store, err
	})
	d.store.keep = stores.Keep(storePath(d.config.Config))
	store, release, err := borrowed(d.store.keep.Acquire(ctx)) // a start waits longer than a message: a migration takes its time
	if err != nil {
		return err
	}
	d.store.path = store.File().Path()
	d.decide("state.db", store.File().Journal().Mode, store.File().Journal().Reason)
	release()
	if d.root, err = kanban.OpenRoot(d.config.Kanban.Root); err != nil {
		return err
	}
	d.boards = registry.For(d.registry, d.openBoard)
	d.newBoards = registry.For(d.registry, d.makeBoard)
	return nil
}

// openBoard opens a board that is there.
func (d *daemon) openBoard(ctx context.Context, path string) (*kanban.Board, error) {
	options, err := d.boardAt(path)
	if err != nil {
		return nil, err
	}
	return d.opened(kanban.Open(ctx, options))
}

// makeBoard opens a board that somebody has just asked for.
func (d *daemon) makeBoard(ctx context.Context, path string) (*kanban.Board, error) {
	options, err := d.boardAt(path)
	if err != nil {
		return nil, err
	}
	options.Create = true
	return d.opened(kanban.Open(ctx, options))
}

// boardAt says how the board at a path is opened.
func (d *daemon) boardAt(path string) (kanban.Options, error) {
	slug, err := d.root.SlugOf(path)
	if err != nil {
		return kanban.Options{}, err
	}
	options := boardOptions(d.config.Config, d.root, slug, d.log)
	options.Heal, options.Whole = true, filepath.Join(d.config.Home, "boards-found-whole")
	return options, nil
}

// opened says how a board's file is journalled, and why.
func (d *daemon) opened(board *kanban.Board, err error) (*kanban.Board, error) {
	if err == nil {
		journal := board.File().Journal()
		d.log.Info("board opened", "board", board.Slug(), "path", board.Path(), "journal", journal.Mode, "reason", journal.Reason)
	}
	return board, err
}

// acquireBoard gives the one open handle of a board.
func (d *daemon) acquireBoard(ctx context.Context, path string) (*kanban.Board, func(), error) {
	ref, err := d.boards.Acquire(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	board, ok := ref.Handle()
	if !ok {
		return nil, nil, &problem.Error{Kind: problem.Unavailable, Thing: path, What: "has been closed"}
	}
	return board, ref.Release, nil
}

// chooseModel decides who answers. It asks the usual local ports only when nothing is configured.
func (d *daemon) chooseModel(ctx context.Context) error {
	d.gates = provider.NewGates(d.config.Home, d.log)
	answers, how := chosen(ctx, d.config, d.gates, d.log)
	d.answers.Store(answers)
	d.decideModel(answers.model, how)
	return nil
}

func (d *daemon) decideModel(model provider.Model, how string) {
	name := model.Describe().Name
	if name == "" {
		name = "not named" // the server is asked at the first turn
	}
	d.decide("model", name, strings.TrimPrefix(how, name+": "))
	if about := model.Describe(); !about.Offline {
		d.decide("model's timeouts", "in force", about.Timeouts)
		if len(about.Fallbacks) > 0 {
			d.decide("model's fallbacks", strings.Join(about.Fallbacks, ", "), "model.fallbacks")
		}
	}
}

func (d *daemon) makeGateway(ctx context.Context) error {
	options, err := gatewayOptions(d.config, d.reaper, d.store)
	if err != nil {
		return err
	}
	options = options.With(d.answers.Load().tune(tuningOf(d.config)))
	options.Log, options.Sole = d.log, true
	d.approvals = gateway.NewApprovals(d.store, d.config.Tools.ApprovalTimeout, d.log)
	options.Approvals = d.approvals
	d.servers = mcpClient(d.config, d.reaper, d.log)
	if len(d.config.MCPServers) > 0 {
		options.Tools = options.Tools.WithLate(d.servers)
		d.decide("MCP servers", strings.Join(slices.Sorted(maps.Keys(d.config.MCPServers)), ", "), "reached beside the start")
	}
	d.tools = options.Tools
	d.secrets.learn(secretsOf(d.config)...)
	options.LastRun = lastrun.Read(d.config.Home)
	d.gateway = gateway.New(options)
	d.decideWindow()
	d.decide("terminal tool", d.config.Tools.Terminal, from(d.config.Origins["tools.terminal"]))
	d.runs = runs.New(runs.Options{
		Store: d.store, Chat: d.gateway, Approvals: d.approvals, Most: d.config.API.MaxConcurrentRuns, Keep: d.config.API.KeepRuns,
		KeepResponses: d.config.API.KeepResponses, Log: d.log,
	})
	if _, err = d.gateway.Recover(ctx); err == nil { // what it found and did is in the log
		_ = d.runs.Recover(ctx) // likewise; it is tried again
	}
	return err
}

func (d *daemon) makeDispatcher(context.Context) error {
	lanes, err := worker.NewLanes(d.config.Kanban, d.config.KeyVariables()...)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// Like the workers' exit records, these lie by the boards: another daemon on the same root may take a run over.
	runs := filepath.Join(d.config.Kanban.Root, "runs")
	d.dispatcher, err = dispatch.New(dispatch.Options{
		Root: d.root, Acquire: d.acquireBoard, Lanes: lanes, Config: d.config.Kanban, Environ: d.config.Environ,
		Launcher: &worker.Local{
			Reaper: d.reaper, Environ: d.config.Environ, RunsDir: runs,
			Signer: d.signer, MCPURL: d.mcpURL(),
		}, RunsDir: runs,
		Workspaces: worker.Workspaces{Git: worker.GitBy(d.reaper, d.config.Environ)}, Home: d.config.Home, Exe: exe,
		Offline: func() bool { return d.describeModel().Offline }, Log: d.log,
	})
	if err != nil {
		return err
	}
	names := lanes.Names()
	d.lanes = names
	state, why := "on", fmt.Sprintf("at most %d workers; lanes: %s", d.config.Kanban.MaxInProgress, strings.Join(names[:min(len(names), 8)], ", "))
	if more := len(names) - 8; more > 0 {
		why += fmt.Sprintf(" and %d more", more)
	}
	if !d.config.Kanban.Dispatch {
		state, why = "off", "kanban.dispatch: "+from(d.config.Origins["kanban.dispatch"])
	}
	d.decide("dispatcher", state, why)
	return nil
}

// abandon closes what build had opened.
func (d *daemon) abandon() {
	if d.registry != nil {
		d.store.release()
		_ = d.registry.CloseAll(context.Background())
	}
	for _, l := range []net.Listener{d.listener, d.socket} {
		if l != nil {
			_ = l.Close()
		}
	}
	d.unlock()
}

// flushMost is how long a process that ends waits for a log that was behind.
const flushMost = time.Second

// unlock lets the home go; it is the very last act.
func (d *daemon) unlock() {
	_ = d.logs.Close()
	d.relay.Flush(flushMost)
	if d.home != nil {
		_ = d.home.Release()
	}
}

// announce says that the daemon is ready and what it decided.
func (d *daemon) announce() {
	d.decideOff(d.config.Config)
	for _, warning := range append(d.config.Warnings, d.home.Warnings...) {
		d.log.Warn(warning)
	}
	if d.foreground {
		fmt.Fprintf(d.std.out, "gatewayd %s, pid %d\n\n", version, os.Getpid())
		printDecisions(d.std.out, d.decided())
		fmt.Fprintln(d.std.out)
	}
	for _, choice := range d.decided() {
		d.log.Debug("decided", "thing", choice.Thing, "value", choice.Value, "why", choice.Why)
	}
	d.log.Info("ready", "host", hostname(), "pid", os.Getpid(), "addr", d.listener.Addr().String(), "took", time.Since(d.started).Round(time.Millisecond).String())
	d.tellCounts()
	if err := d.notify.Ready(); err != nil {
		d.log.Warn("service manager was not told", "error", err)
	}
}
