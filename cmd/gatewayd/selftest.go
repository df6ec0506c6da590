package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/chamber"
	"gatewayd/reaper"
)

func (c *cli) selftestVerb() *cobra.Command {
	var chaos bool
	var minutes int
	var dir string
	var plan chamber.Plan
	cmd := c.readVerb(&cobra.Command{
		Use: "selftest --chaos", Short: "Kill real processes on this disk and see whether it keeps every acknowledged row", Args: verbs,
		Long: "Makes a store and a board of its own in a new directory, lets many processes write to them, kills them in the middle of\n" +
			"their work, and looks for every acknowledged row. The directory is removed again, or kept and named when something was found.\n" +
			"Your own home is not touched.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !chaos {
				return usagef("selftest wants --chaos; see `gatewayd selftest --help`")
			}
			if minutes < 1 {
				return usagef("--minutes must be 1 or more, not %d", minutes)
			}
			plan.Limit = time.Duration(minutes) * time.Minute
			return c.chaos(cmd.Context(), dir, plan)
		},
	})
	cmd.Flags().BoolVar(&chaos, "chaos", false, "torture a store beside the home")
	cmd.Flags().IntVar(&minutes, "minutes", 1, "about how long, at least one round")
	cmd.Flags().StringVar(&dir, "dir", "", "in which directory (default beside the home)")
	cmd.Flags().StringVar(&plan.Only, "episode", "", "play only this one, once")
	cmd.Flags().Uint64Var(&plan.Seed, "seed", uint64(time.Now().Unix()), "of everything that is chosen by chance")
	cmd.AddCommand(c.roleVerb())
	return cmd
}

func (c *cli) chaos(ctx context.Context, dir string, plan chamber.Plan) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	loaded, err := c.load()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	place, err := chaosDir(dir, loaded.Home)
	if err != nil {
		return err
	}
	verdict, err := chamber.Chaos(ctx, chamber.Options{
		Dir: place, Program: exe, Start: startChild, Say: c.progress,
		Replay: "gatewayd selftest --chaos --episode %s --seed %d",
		Env:    append(loaded.Environ.Allow("PATH", "LANG", "TMPDIR"), "HOME="+place),
	}, plan)
	if verdict.Safe || ctx.Err() != nil || err != nil && len(verdict.Results) == 0 {
		_ = os.RemoveAll(place)
	} else {
		fmt.Fprintf(c.std.err, "gatewayd: kept for a look: %s\n", place)
	}
	if err != nil {
		return err
	}
	err = c.emit(verdict, func(w io.Writer) {
		for _, line := range verdict.Words() {
			fmt.Fprintln(w, text(line))
		}
	})
	if err == nil && !verdict.Safe {
		err = codeError(exitFailed)
	}
	return err
}

// progress is for whoever watches; with --json the answer alone goes to the output.
func (c *cli) progress(format string, args ...any) {
	if !c.json {
		fmt.Fprintf(c.std.out, format+"\n", args...)
	}
}

// chaosDir makes the directory to torture. Beside the home is the home's own disk; where that is not so, because the
// home is a mount of its own, it is made inside.
func chaosDir(dir, home string) (string, error) {
	const pattern = "gatewayd-selftest-"
	if dir != "" {
		if err := mustBeDir("--dir ", dir); err != nil {
			return "", err
		}
		made, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return "", unusable("--dir "+dir, "name a directory that can be written", err)
		}
		return made, nil
	}
	beside := existing(filepath.Dir(home))
	if sameDevice(beside, home) {
		if made, err := os.MkdirTemp(beside, pattern); err == nil {
			return made, nil
		}
	}
	made, err := os.MkdirTemp(existing(home), pattern)
	if err != nil {
		return "", unusable("home "+home, "name another directory with --dir", err)
	}
	return made, nil
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

// sameDevice also holds where the home does not exist yet.
func sameDevice(a, home string) bool {
	first, err := os.Stat(a)
	second, none := os.Stat(home)
	if err != nil || none != nil {
		return err == nil
	}
	one, ok := first.Sys().(*syscall.Stat_t)
	two, fine := second.Sys().(*syscall.Stat_t)
	return ok && fine && one.Dev == two.Dev
}

// roleVerb is one process of the torture chamber. It is for the chamber alone: it reads no configuration.
func (c *cli) roleVerb() *cobra.Command {
	return &cobra.Command{
		Use: "role NAME PARAMETERS", Short: "Be one process of the torture chamber", Args: exactly(2), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if err := chamber.RunRole(ctx, args[0], args[1], c.std.out); err != nil {
				return codeError(exitFailed) // it has said why, to the chamber
			}
			return nil
		},
	}
}

// startChild is how the chamber starts processes.
func startChild(argv, env []string, dir string, out, errs io.Writer) (chamber.Process, error) {
	child, err := reaper.StartChild(argv, env, dir, out, errs)
	if err != nil {
		return nil, err
	}
	return child, nil
}
