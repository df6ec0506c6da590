// Command gatewayd answers people through an agent, hands the ready cards of kanban boards to worker processes,
// and keeps every acknowledged row. Bare, it serves; each other verb is one file of this package that parses,
// calls and prints. No rule lives here: rules live in the package that owns the noun.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

func main() {
	reaper.Main() // a keeper is this same binary: it must start before anything else is made
	os.Exit(execute(context.Background(), os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: config.OSEnviron()}))
}

// stdio is what a verb may read and write, so that tests can run verbs in the process.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
}

// execute does what one command line says and gives its exit code.
func execute(ctx context.Context, args []string, std stdio) int {
	if runtime.GOOS != "linux" {
		fmt.Fprintf(std.err, "gatewayd: runs on Linux only, not on %s: use a Linux machine or a container\n", runtime.GOOS)
		return exitConfig
	}
	out := &printed{Writer: std.out}
	std.out = out
	cli := &cli{std: std}
	root := cli.root()
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	if err != nil && !cli.started {
		err = usageError{err}
	}
	if err == nil {
		err = out.failure()
	}
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintf(std.err, "gatewayd: %s\n", text(message(err)))
	}
	return exitCode(err)
}

// cli is what all verbs share: the streams and the flags that each of them takes.
type cli struct {
	std        stdio
	home, addr string
	ca         string // PEM file of those who may vouch for a daemon at an https address
	json       bool
	foreground bool
	started    bool // a verb has begun: errors before that are usage errors
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "gatewayd",
		Short:         "An agent gateway and kanban dispatcher that never loses an acknowledged row",
		Long:          "gatewayd without a verb serves: it answers on its API, dispatches the boards of its home and stores what was said.\nAdd --foreground to run it in a terminal.",
		Args:          verbs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.checkFlags(cmd); err != nil {
				return err
			}
			c.started = true
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isURL(c.addr) || c.ca != "" {
				return usagef("who serves listens on --addr HOST:PORT, and speaks TLS with api.tls_cert and api.tls_key; https:// and --ca are for the verbs that ask a daemon")
			}
			return c.serve(cmd.Context())
		},
	}
	root.PersistentFlags().StringVar(&c.home, "home", "", "directory of this gatewayd (default ~/.gatewayd, or GATEWAYD_HOME)")
	root.PersistentFlags().StringVar(&c.addr, "addr", "", "HOST:PORT of the API (default 127.0.0.1:8642); a verb also takes https://HOST:PORT")
	root.PersistentFlags().StringVar(&c.ca, "ca", "", "PEM `FILE` with the certificate that vouches for the daemon at an https address (default: those this system trusts)")
	root.Flags().BoolVar(&c.foreground, "foreground", false, "run in this terminal, with a banner and readable logs")
	root.AddCommand(c.initVerb(), c.demoVerb(), c.statusVerb(), c.insightsVerb(), c.healthVerb(), c.kanbanVerb(), c.whyVerb(), c.chatVerb(),
		c.sessionsVerb(), c.importVerb(), c.configVerb(), c.backupVerb(), c.restoreVerb(), c.repairVerb(), c.databaseVerb(), c.doctorVerb(),
		c.selftestVerb(), c.versionVerb(), c.manualVerb(), c.mcpVerb(), c.approvalsVerb(), c.keysVerb(), c.workerVerb(), c.installVerb(), c.uninstallVerb(), c.logsVerb())
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpVerb(root))
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = verbs, help
		}
	}
	c.offers(root)
	return root
}

// checkFlags refuses a flag that was given and left empty: `--home "$UNSET"` must not act on the default home.
func (c *cli) checkFlags(cmd *cobra.Command) error {
	for _, name := range []string{"home", "addr", "ca", "board", "session"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usagef("--%s is empty; give a value or leave it out", name)
		}
	}
	return nil
}

// readVerb gives a verb that only reads its --json flag.
func (c *cli) readVerb(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

// load reads the configuration with this command line's flags on top.
// load reads the configuration, and sees to it that SQLite has a place for temporary files before a database is opened.
func (c *cli) load() (config.Loaded, error) {
	loaded, err := config.Load(c.request())
	if err == nil {
		config.SpillInto(loaded.Home)
	}
	return loaded, err
}

// homeDir finds the home whatever is wrong with its configuration.
func (c *cli) homeDir() (string, error) { return config.HomeOf(c.request()) }

func (c *cli) request() config.Request {
	flags := map[string]string{}
	if c.home != "" {
		flags["home"] = c.home
	}
	if c.addr != "" && !isURL(c.addr) { // where a daemon elsewhere is, is no setting
		flags["addr"] = c.addr
	}
	return config.Request{Flags: flags, Environ: c.std.environ, CheckLane: checkLane}
}

// checkLane lets those who fill in a lane's argv check it, so that a mistake is named with its line.
func checkLane(name string, lane config.Lane) error {
	_, err := worker.NewLanes(config.Kanban{Lanes: map[string]config.Lane{name: lane}}, "")
	return err
}
