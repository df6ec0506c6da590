package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/reaper"
	"gatewayd/registry"
	"gatewayd/systemd"
)

func (c *cli) installVerb() *cobra.Command {
	i := &installation{cli: c}
	cmd := c.readVerb(&cobra.Command{
		Use: "install", Short: "Make the daemon a systemd service that starts by itself", Args: exactly(0),
		Long: "Writes a unit for this program and this home, and has systemd read and enable it: a service of your own user, or, with --system and as\n" +
			"root, one of the machine with a user of its own. What it would write is printed by --dry-run. A unit that somebody else made is left alone.",
		RunE: func(cmd *cobra.Command, _ []string) error { return i.install(cmd.Context()) },
	})
	cmd.Flags().BoolVar(&i.system, "system", false, "a service of the machine, which runs as the user gatewayd")
	cmd.Flags().BoolVar(&i.now, "now", false, "start it, too")
	cmd.Flags().BoolVar(&i.dry, "dry-run", false, "print the unit and its path; change nothing")
	cmd.Flags().BoolVar(&i.socket, "socket", false, "have systemd listen on api.addr, so that the door stays open while the daemon is started again")
	cmd.Flags().BoolVar(&i.alone, "api-only", false, "fence it in more narrowly, for a daemon that starts no workers and no commands")
	return cmd
}

func (c *cli) uninstallVerb() *cobra.Command {
	i := &installation{cli: c}
	cmd := c.readVerb(&cobra.Command{
		Use: "uninstall", Short: "Stop the systemd service and take its unit away; the home stays", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return i.uninstall(cmd.Context()) },
	})
	cmd.Flags().BoolVar(&i.system, "system", false, "the service of the machine")
	return cmd
}

// installation is the service that a home has, or gets.
type installation struct {
	*cli
	system, now, dry, alone, socket bool

	loaded config.Loaded
	name   string // of the unit, "gatewayd.service"
	path   string // of its file
	did    []step
}

// step is one thing that was done, or that a person has to do.
type step struct {
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"` // it was not done: this does it
}

func (i *installation) note(format string, args ...any) {
	i.did = append(i.did, step{What: fmt.Sprintf(format, args...)})
}

func (i *installation) lacks(remedy, format string, args ...any) {
	i.did = append(i.did, step{What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// find settles which unit it is. A home that is not the usual one has a unit of its own.
func (i *installation) find() (err error) {
	if i.loaded, err = i.settings(); err != nil {
		return err
	}
	i.name = "gatewayd.service"
	if !i.usual() {
		sum := sha256.Sum256([]byte(i.loaded.Home))
		i.name = "gatewayd-" + hex.EncodeToString(sum[:4]) + ".service"
	}
	dir := "/etc/systemd/system"
	if !i.system {
		dir = filepath.Join(userConfig(i.loaded.Environ), "systemd", "user")
	}
	i.path = filepath.Join(dir, i.name)
	return nil
}

// settings are those that the service will have: whoever installs one of the machine has another home. Who may not look into it, and only
// looks at the unit, takes their own.
func (i *installation) settings() (config.Loaded, error) {
	if !i.system || i.home != "" {
		return i.load()
	}
	request := i.request()
	request.Flags["home"] = systemd.StateHome
	loaded, err := config.Load(request)
	if errors.Is(err, fs.ErrPermission) {
		return i.load()
	}
	return loaded, err
}

// usual reports the home that the daemon takes when nobody names one: a unit need not name it either.
func (i *installation) usual() bool {
	if i.system {
		return i.home == ""
	}
	return i.loaded.Home == filepath.Join(i.loaded.Environ.Get("HOME"), ".gatewayd")
}

func userConfig(environ config.Environ) string {
	if dir := environ.Get("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(environ.Get("HOME"), ".config")
}

// unit is the one that this home needs.
func (i *installation) unit() (systemd.Unit, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return systemd.Unit{}, fmt.Errorf("find this program: %w", err)
	}
	if strings.HasPrefix(exe, os.TempDir()+string(filepath.Separator)) {
		return systemd.Unit{}, &problem.Error{
			Kind: problem.Conflict, Thing: exe, What: "lies among temporary files, which go away", Fate: "nothing was installed",
			Remedy: "build it to stay (`make build`), put it where programs are, as ~/.local/bin or /usr/local/bin, and install from there",
		}
	}
	u := systemd.Unit{System: i.system, Exe: exe, Stop: longestStop(i.loaded.Config), Alone: i.alone}
	if !i.usual() {
		u.Home = i.loaded.Home
	}
	if i.socket {
		if u.Listen, err = listenable(i.loaded.API); err != nil {
			return systemd.Unit{}, err
		}
	}
	return u, nil
}

// listenable is the address of the API as systemd takes it: numbers, and a port that stays the same.
func listenable(a config.API) (string, error) {
	addr, err := netip.ParseAddrPort(a.Addr)
	if err != nil || addr.Port() == 0 {
		return "", &problem.Error{Kind: problem.Config, Thing: "api.addr " + a.Addr, What: "is nothing that systemd listens on", Fate: "nothing was installed", Remedy: "write an address in numbers and a port, as 127.0.0.1:8642"}
	}
	return addr.String(), a.CheckBound(net.TCPAddrFromAddrPort(addr))
}

// socketName and socketPath are those of the socket's unit, which systemd pairs with the service by its name.
func (i *installation) socketName() string { return strings.TrimSuffix(i.name, ".service") + ".socket" }

func (i *installation) socketPath() string { return strings.TrimSuffix(i.path, ".service") + ".socket" }

// longestStop is what the end of a daemon may take: conversations drain, then files close.
func longestStop(cfg config.Config) time.Duration {
	return cfg.Agent.ShutdownGrace + registry.DefaultCloseTimeout + 10*time.Second
}

func (i *installation) install(ctx context.Context) error {
	if err := i.find(); err != nil {
		return err
	}
	unit, err := i.unit()
	if err != nil {
		return err
	}
	if i.dry {
		return i.preview(unit)
	}
	if err := i.write(i.path, unit.Text()); err != nil {
		return err
	}
	if i.socket {
		if err := i.write(i.socketPath(), unit.SocketText()); err != nil {
			return err
		}
	}
	i.enable(ctx)
	i.advise()
	i.begin(ctx)
	return i.report()
}

func (i *installation) preview(unit systemd.Unit) error {
	out := map[string]string{"path": i.path, "unit": unit.Text()}
	if i.socket {
		out["socket_path"], out["socket_unit"] = i.socketPath(), unit.SocketText()
	}
	return i.emit(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s:\n\n%s", i.path, unit.Text())
		if i.socket {
			fmt.Fprintf(w, "\n%s:\n\n%s", i.socketPath(), unit.SocketText())
		}
	})
}

// write puts a unit into its place, whole. One that is not ours stays.
func (i *installation) write(path, text string) error {
	before, err := os.ReadFile(path)
	switch {
	case err == nil && string(before) == text:
		i.note("%s is as it should be", path)
		return nil
	case err == nil && !strings.HasPrefix(string(before), systemd.Mark):
		return &problem.Error{
			Kind: problem.Conflict, Thing: path, What: "was not made by `gatewayd install`", Fate: "it was left as it is",
			Remedy: "move it away and install again; `gatewayd install --dry-run` prints what would be written",
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return i.unwritable(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return i.unwritable(err)
	}
	fresh := path + ".new" // systemd must never read half a unit
	if err := errors.Join(os.WriteFile(fresh, []byte(text), 0o644), os.Rename(fresh, path)); err != nil {
		return i.unwritable(err)
	}
	i.note("wrote %s", path)
	return nil
}

func (i *installation) unwritable(err error) error {
	remedy := "make the directory writable"
	if i.system {
		remedy = "run it as root: sudo gatewayd install --system"
	}
	return &problem.Error{Kind: problem.Denied, Thing: i.path, What: "cannot be written", Fate: "nothing was installed", Remedy: remedy, Err: err}
}

// enable has systemd read the unit.
func (i *installation) enable(ctx context.Context) {
	words := [][]string{{"daemon-reload"}, {"enable", i.name}}
	if i.socket {
		words = append(words, []string{"enable", i.socketName()})
	}
	i.tell(ctx, words...)
}

// begin starts it where that was asked for and nothing is missing that it needs, which advise has named before.
func (i *installation) begin(ctx context.Context) {
	switch {
	case i.now && i.runnable() && i.socket: // systemd opens no socket for a service that listens there itself
		i.tell(ctx, []string{"stop", i.name}, []string{"restart", i.socketName()}, []string{"restart", i.name})
	case i.now && i.runnable():
		i.tell(ctx, []string{"restart", i.name})
	case i.socket:
		i.lacks(strings.Join(i.systemctl("start", i.socketName(), i.name), " "), "it is not started yet")
	default:
		i.lacks(strings.Join(i.systemctl("start", i.name), " "), "it is not started yet")
	}
}

// tell gives systemd orders. Where no systemd answers, a person is told what to type where one does.
func (i *installation) tell(ctx context.Context, orders ...[]string) {
	for _, words := range orders {
		line := i.systemctl(words...)
		if err := told(ctx, i.loaded, line); err != nil {
			i.lacks(strings.Join(line, " "), "systemd was not told: %v", err)
			continue
		}
		i.note("%s", strings.Join(line, " "))
	}
}

func (i *installation) systemctl(words ...string) []string {
	if i.system {
		return append([]string{"systemctl"}, words...)
	}
	return append([]string{"systemctl", "--user"}, words...)
}

// advise tells what else a service needs.
func (i *installation) advise() {
	if i.system {
		if !i.runnable() {
			i.lacks("useradd --system --home-dir /var/lib/gatewayd --shell /usr/sbin/nologin gatewayd", "there is no user gatewayd, as whom it runs")
		}
		return
	}
	if name := userName(i.loaded.Environ); name != "" && !lingers(name) {
		i.lacks("loginctl enable-linger "+name, "it ends when you log out, and starts when you log in")
	}
}

// runnable reports that there is the user as whom it runs: without one systemd would try for ever.
func (i *installation) runnable() bool {
	if !i.system {
		return true
	}
	_, err := user.Lookup("gatewayd")
	return err == nil
}

func userName(environ config.Environ) string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return environ.Get("USER")
}

// lingers reports a user whose services run without a login.
func lingers(name string) bool {
	_, err := os.Stat(filepath.Join("/var/lib/systemd/linger", name))
	return err == nil
}

func (i *installation) uninstall(ctx context.Context) error {
	if err := i.find(); err != nil {
		return err
	}
	text, err := os.ReadFile(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &problem.Error{Kind: problem.NotFound, Thing: i.path, What: "is not installed", Fate: "nothing was changed", Remedy: "the service of the machine is taken away with --system, another home's with --home"}
	case err != nil:
		return i.unwritable(err)
	case !strings.HasPrefix(string(text), systemd.Mark):
		return &problem.Error{Kind: problem.Conflict, Thing: i.path, What: "was not made by `gatewayd install`", Fate: "it was left as it is", Remedy: "take it away by hand"}
	}
	if i.ourSocket() && !mutation.On("uninstall-leaves-the-door") {
		i.removeSocket(ctx)
	}
	i.tell(ctx, []string{"disable", "--now", i.name})
	if err := os.Remove(i.path); err != nil {
		return i.unwritable(err)
	}
	i.note("removed %s", i.path)
	if err := told(ctx, i.loaded, i.systemctl("daemon-reload")); err == nil {
		i.note("%s", strings.Join(i.systemctl("daemon-reload"), " "))
	}
	i.remains()
	return i.report()
}

// remains names what is left, and is no longer anybody's but the person's.
func (i *installation) remains() {
	if _, err := os.Stat(systemd.CacheDir); i.system && err == nil {
		i.lacks("rm -r "+systemd.CacheDir, "temporary files of the service and its workers stay in %s", systemd.CacheDir)
	}
	i.note("the home %s stays, and so do workers that are at work: `gatewayd kanban drain --kill` ends those", i.loaded.Home)
}

// ourSocket reports that the socket has a unit that was written here.
func (i *installation) ourSocket() bool {
	text, err := os.ReadFile(i.socketPath())
	return err == nil && strings.HasPrefix(string(text), systemd.Mark)
}

// removeSocket shuts the door and takes its unit away. That goes before the service: whoever knocked in between would start it again.
func (i *installation) removeSocket(ctx context.Context) {
	i.tell(ctx, []string{"disable", "--now", i.socketName()})
	if err := os.Remove(i.socketPath()); err != nil {
		i.lacks("rm "+i.socketPath(), "%s cannot be removed: %v", i.socketPath(), err)
		return
	}
	i.note("removed %s", i.socketPath())
}

func (i *installation) report() error {
	return i.emit(map[string]any{"unit": i.name, "path": i.path, "steps": i.did}, func(w io.Writer) {
		for _, s := range i.did {
			if s.Remedy == "" {
				fmt.Fprintf(w, "%s\n", text(s.What))
				continue
			}
			fmt.Fprintf(w, "%s; do it with:\n  %s\n", text(s.What), text(s.Remedy))
		}
	})
}

// runBound is how long systemd may take to do what it is asked.
const runBound = 2 * time.Minute

// passing is where files of a moment are: in the home, where there is one that may be written.
func passing(home string) string {
	if unix.Access(home, unix.W_OK|unix.X_OK) == nil {
		return home
	}
	return os.TempDir()
}

// told runs a command of the machine under a keeper, and gives what it said when it fails.
func told(ctx context.Context, loaded config.Loaded, argv []string) error {
	_, err := output(ctx, loaded, argv)
	return err
}

// output is told, with what the command printed.
func output(ctx context.Context, loaded config.Loaded, argv []string) (string, error) {
	dir, err := os.MkdirTemp(passing(loaded.Home), "run-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	r, err := reaper.New(reaper.Options{Dir: dir, Spares: -1})
	if err != nil {
		return "", err
	}
	out, rec, err := r.Output(ctx, reaper.Spec{
		Argv: argv, Dir: "/", Deadline: runBound,
		Env: loaded.Environ.Allow("PATH", "HOME", "USER", "LOGNAME", "LANG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS"),
	})
	switch said := strings.TrimSpace(string(out)); {
	case err != nil:
		return "", err
	case rec.Reason != reaper.Exited || rec.Code != 0:
		if said == "" {
			said = fmt.Sprintf("%s, code %d", rec.Reason, rec.Code)
		}
		return "", errors.New(strings.Join(strings.Fields(said), " "))
	}
	return string(out), nil
}
