package main

import (
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gatewayd/internal/chamber"
	"gatewayd/reaper"
)

func (c *cli) selftestVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "selftest", Short: "Try out whether this machine keeps what it is given", Args: verbs, RunE: help}
	cmd.AddCommand(c.roleVerb())
	return cmd
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
