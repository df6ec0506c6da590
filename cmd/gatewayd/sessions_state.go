package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gatewayd/sessiondb"
)

// sessionStates are the verbs that put conversations away, keep them, open them again and branch them. They may run beside the daemon.
func (c *cli) sessionStates() []*cobra.Command {
	yes, no := new(true), new(false)
	return []*cobra.Command{
		c.sessionFlagVerb("archive", "Put conversations away: lists leave them out", "is archived", sessiondb.SessionFlags{Archived: yes}),
		c.sessionFlagVerb("unarchive", "Bring conversations back into lists", "is in lists again", sessiondb.SessionFlags{Archived: no}),
		c.sessionFlagVerb("pin", "Keep conversations: prune never deletes them", "is pinned", sessiondb.SessionFlags{Pinned: yes}),
		c.sessionFlagVerb("unpin", "Let prune delete conversations when they are old", "is not pinned any more", sessiondb.SessionFlags{Pinned: no}),
		c.eachSessionVerb("reopen", "Open conversations again that had ended", "is open", (*sessiondb.Store).Reopen),
		c.sessionsForkVerb(),
	}
}

func (c *cli) sessionFlagVerb(name, short, said string, f sessiondb.SessionFlags) *cobra.Command {
	return c.eachSessionVerb(name, short, said, func(s *sessiondb.Store, ctx context.Context, id string) error { return s.SetFlags(ctx, id, f) })
}

// eachSessionVerb changes one conversation after the other, and ends at the first that cannot be.
func (c *cli) eachSessionVerb(name, short, said string, change func(*sessiondb.Store, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " SESSION...", Short: short, Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				for _, id := range args {
					if err := change(s, ctx, id); err != nil {
						return err
					}
					fmt.Fprintf(c.std.out, "%s %s\n", line(id), said)
				}
				return nil
			})
		},
	}
}

func (c *cli) sessionsForkVerb() *cobra.Command {
	var n sessiondb.NewSession
	var upTo int64
	cmd := c.readVerb(&cobra.Command{
		Use: "fork SESSION", Short: "Begin another conversation with what was said in one", Args: exactly(1),
		Long: "Begins another conversation with what was said in this one, all of it or up to a row, and prints its id. This one stays as it is.",
	})
	cmd.Flags().StringVar(&n.ID, "id", "", "id of the new one (default: one is made)")
	cmd.Flags().StringVar(&n.Title, "title", "", "what the new one is called")
	cmd.Flags().Int64Var(&upTo, "up-to", 0, "id of the last row that it takes (default: all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if upTo < 0 {
			return usagef("--up-to must be the id of a row, not %d", upTo)
		}
		return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
			made, err := s.Fork(ctx, args[0], upTo, n)
			if err != nil {
				return err
			}
			return c.emit(map[string]any{"session": made}, func(w io.Writer) { fmt.Fprintln(w, line(made.ID)) })
		})
	}
	return cmd
}
