package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/sessiondb"
)

// sessionChanges are the verbs that change conversations. They may run beside the daemon: what it is doing is refused.
func (c *cli) sessionChanges() []*cobra.Command {
	return []*cobra.Command{c.sessionsRenameVerb(), c.sessionsEndVerb(), c.sessionsRewindVerb(), c.sessionsDeleteVerb(), c.sessionsPruneVerb()}
}

func (c *cli) sessionsRenameVerb() *cobra.Command {
	return &cobra.Command{
		Use: "rename SESSION TITLE...", Short: "Give a conversation a title", Args: atLeast(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				title := words(args, 1)
				err := s.SetTitle(ctx, args[0], title)
				if err == nil {
					fmt.Fprintf(c.std.out, "%s is called %s\n", line(args[0]), line(title))
				}
				return err
			})
		},
	}
}

func (c *cli) sessionsEndVerb() *cobra.Command {
	return &cobra.Command{
		Use: "end SESSION", Short: "Close a conversation; saying something in it opens it again", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				stamped, err := s.EndSession(ctx, args[0], sessiondb.EndClosed)
				if err != nil {
					return err
				}
				said := "is closed"
				if !stamped {
					said = "had ended before"
				}
				fmt.Fprintf(c.std.out, "%s %s\n", line(args[0]), said)
				return nil
			})
		},
	}
}

func (c *cli) sessionsRewindVerb() *cobra.Command {
	var turns int
	cmd := c.readVerb(&cobra.Command{
		Use: "rewind SESSION", Short: "Take back the last turns of a conversation", Args: exactly(1),
		Long: "Takes back what was said in the last turns. The rows stay in the file, out of sight; what tools did is not undone.",
	})
	cmd.Flags().IntVar(&turns, "turns", 1, "how many; more than there are means all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if turns < 1 {
			return usagef("--turns must be 1 or more, not %d", turns)
		}
		return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
			back, err := rewind(ctx, s, args[0], turns)
			if err != nil {
				return err
			}
			return c.emit(map[string]any{"removed": back.Removed, "live": back.Active}, func(w io.Writer) {
				fmt.Fprintf(w, "rows taken back: %d, left: %d; what was said first: %s\n", len(back.Removed), back.Active, line(back.Removed[0].Content))
			})
		})
	}
	return cmd
}

// rewind holds the turn lease for the moment that it takes, so a turn that is under way is not cut in two.
func rewind(ctx context.Context, s *sessiondb.Store, session string, turns int) (back sessiondb.Rewound, err error) {
	self, err := sessiondb.SelfHolder("sessions rewind")
	if err != nil {
		return back, err
	}
	lease, err := s.TryTurn(ctx, session, self, time.Minute)
	if err != nil {
		return back, err
	}
	defer func() {
		if released := s.Release(ctx, lease); err == nil {
			err = released
		}
	}()
	return s.RewindTurns(ctx, lease, -turns)
}

func (c *cli) sessionsDeleteVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "delete SESSION...", Short: "Delete conversations for good", Args: atLeast(1),
		Long: "Deletes the conversations with all that is theirs, all of them or none. Conversations that came from them stay.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				gone, err := s.Delete(ctx, args...)
				if err != nil {
					return err
				}
				if err := c.dropSpill(args...); err != nil {
					return err
				}
				return c.emit(gone, func(w io.Writer) {
					fmt.Fprintf(w, "conversations deleted: %d, with %d rows\n", gone.Sessions, gone.Messages)
				})
			})
		},
	})
}

// dropSpill removes the large results that were kept in files for conversations which are gone.
func (c *cli) dropSpill(sessions ...string) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	if err := spillOf(loaded).Drop(sessions...); err != nil {
		return unusable("directory "+spillOf(loaded).Dir, "remove what is left there by hand; the conversations are deleted", err)
	}
	return nil
}

func (c *cli) sessionsPruneVerb() *cobra.Command {
	var days int
	var dry bool
	cmd := c.readVerb(&cobra.Command{
		Use: "prune", Short: "Delete conversations that ended long ago", Args: exactly(0),
		Long: "Deletes what ended and was not touched for so many days. Open and pinned conversations stay, and one that compaction\ncontinued in others goes only together with these.",
	})
	cmd.Flags().IntVar(&days, "days", int(sessiondb.DefaultPruneAge/(24*time.Hour)), "how old")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would go")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if days < 1 {
			return usagef("--days must be 1 or more, not %d", days)
		}
		return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
			gone, err := s.Prune(ctx, sessiondb.PruneOptions{Age: time.Duration(days) * 24 * time.Hour, DryRun: dry})
			if err != nil {
				return err
			}
			if !dry {
				if err := c.dropSpill(gone.IDs...); err != nil {
					return err
				}
			}
			return c.emit(gone, func(w io.Writer) { printPruned(w, gone, dry) })
		})
	}
	return cmd
}

func printPruned(w io.Writer, gone sessiondb.Pruned, dry bool) {
	said := "conversations deleted: %d\n"
	if dry {
		said = "conversations that would be deleted: %d\n"
	}
	fmt.Fprintf(w, said, gone.Sessions)
	for _, id := range gone.IDs {
		fmt.Fprintln(w, line(id))
	}
	if gone.Busy > 0 {
		fmt.Fprintf(w, "left alone because they are in use: %d\n", gone.Busy)
	}
}
