package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func (c *cli) sessionMoves() []*cobra.Command {
	return []*cobra.Command{c.sessionsExportVerb(), c.sessionsImportVerb(), c.sessionsVerifyVerb()}
}

func (c *cli) sessionsExportVerb() *cobra.Command {
	var all, lineage bool
	var to string
	var most int
	cmd := &cobra.Command{
		Use: "export [SESSION...]", Short: "Write conversations as JSON lines", Args: between(0, -1),
		Long: `Writes conversations to a file, or to standard output, in the form that ` + "`gatewayd sessions import`" + ` reads: one JSON object per line, the
first one with the version of the form, the last one with the counts. Folded and superseded messages, usage and system prompts
are part of it; routing and leases are not. The same conversations always give the same bytes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usagef("name sessions, or give --all; usage: %s", cmd.UseLine())
			}
			if most == 0 {
				most = -1
			}
			o := sessiondb.ExportOptions{Sessions: args, Lineage: lineage, MaxMessages: most}
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error { return c.export(ctx, s, to, o) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every conversation")
	cmd.Flags().BoolVar(&lineage, "lineage", false, "also what each one went on from and what went on from it")
	cmd.Flags().StringVarP(&to, "output", "o", "", "file to make (default standard output)")
	cmd.Flags().IntVar(&most, "max-messages", 20_000, "refuse a conversation with more messages; 0: no limit")
	return cmd
}

func (c *cli) export(ctx context.Context, s *sessiondb.Store, to string, o sessiondb.ExportOptions) error {
	if to == "" {
		w := bufio.NewWriter(c.std.out)
		_, err := sessiondb.Export(ctx, s, w, o)
		return errors.Join(err, w.Flush())
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &problem.Error{Kind: problem.Conflict, Thing: "file " + to, What: "exists already", Fate: "it was left as it is", Remedy: "name another one"}
	}
	if err != nil {
		return &problem.Error{Kind: problem.Unavailable, Thing: "file " + to, What: "cannot be made", Fate: "nothing was exported", Remedy: "name another place", Err: err}
	}
	w := bufio.NewWriter(file)
	got, err := sessiondb.Export(ctx, s, w, o)
	if err = errors.Join(err, w.Flush(), file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(to)) // half a file helps nobody
	}
	fmt.Fprintf(c.std.err, "%s: %d sessions, %d messages\n", line(to), got.Sessions, got.Messages)
	return nil
}

func (c *cli) sessionsImportVerb() *cobra.Command {
	var o sessiondb.ImportOptions
	cmd := c.readVerb(&cobra.Command{
		Use: "import FILE", Short: "Take in conversations that were exported", Args: exactly(1),
		Long: `Checks the whole file first, then stores all of it or nothing. What is here already is never changed: a conversation is continued when
the file holds more of it, and left alone when it went another way here.

A file may hold 500 sessions, 50,000 messages and 25 MiB, a session 10,000 messages and 5 MiB. --unlimited lifts that; other writers
wait while such a file is stored.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onImport(cmd.Context(), o.DryRun, func(ctx context.Context, s *sessiondb.Store) error {
				got, err := sessiondb.Import(ctx, s, args[0], o)
				return c.tellMoved(ctx, s, got, err)
			})
		},
	})
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be taken in and write nothing")
	cmd.Flags().BoolVar(&o.Unlimited, "unlimited", false, "take in a file of any size")
	return cmd
}

func (c *cli) sessionsVerifyVerb() *cobra.Command {
	var o sessiondb.VerifyOptions
	var receipt string
	cmd := c.readVerb(&cobra.Command{
		Use: "verify [SESSION...]", Short: "Audit conversations, without changing anything", Args: between(0, -1),
		Long: `Checks that roles alternate, that each tool call has one result, that no message is there twice, that flags, counters, references and
search indexes agree with the rows, and that the file itself is sound. It only reads and may run beside a daemon; a turn that is
being written is no finding. The exit code is 1 when something is damaged.

With --receipt it checks one receipt of an answer instead, as it stood in the header Gatewayd-Receipt: whether the rows of that
turn are stored as they were acknowledged, and what became of them since. The exit code is 1 when that is not proved.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("receipt") {
				return c.verifyReceipt(cmd.Context(), args, receipt)
			}
			o.Sessions = args
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				got, err := sessiondb.Verify(ctx, s, o)
				if err == nil {
					err = c.emit(got, func(w io.Writer) { printAudit(w, got) })
				}
				if err == nil && !got.OK() {
					err = errSaid
				}
				return err
			})
		},
	})
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "read every page and compare every uid: minutes for gigabytes")
	cmd.Flags().StringVar(&receipt, "receipt", "", "check one receipt of an answer")
	return cmd
}

// verifyReceipt proves a receipt from the rows. A session that is named beside it has to be its own.
func (c *cli) verifyReceipt(ctx context.Context, sessions []string, text string) error {
	r, err := sessiondb.ParseReceipt(text)
	if err != nil {
		return err
	}
	if len(sessions) > 1 || len(sessions) == 1 && sessions[0] != r.Session {
		return &problem.Error{Kind: problem.Invalid, Thing: "receipt", What: "is of session " + r.Session, Remedy: "name that session, or none"}
	}
	return c.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) error {
		p, err := s.Check(ctx, r)
		if err == nil {
			err = c.emit(p, func(w io.Writer) {
				verdict := map[bool]string{true: "PROVEN", false: "NOT PROVEN"}[p.Proven]
				fmt.Fprintf(w, "%s  session %s, turn %s, row %d: %s\n", verdict, line(r.Session), line(r.Turn), r.Row, line(p.What))
			})
		}
		if err == nil && !p.Proven {
			err = errSaid
		}
		return err
	})
}

func printAudit(w io.Writer, got sessiondb.Audit) {
	for _, f := range got.Findings {
		fmt.Fprintf(w, "%s  %s\n", f.Level, line(f.String()))
	}
	if got.More > 0 {
		fmt.Fprintf(w, "and %d more findings\n", got.More)
	}
	for _, r := range got.Running {
		fmt.Fprintf(w, "running  session %s: %s of %s\n", line(r.Session), r.Kind, line(r.Holder.String()))
	}
	verdict := "sound"
	if !got.OK() {
		verdict = fmt.Sprintf("DAMAGED, %d findings", got.Damaged)
	}
	fmt.Fprintf(w, "%d sessions, %d messages, %d of them live: %s\n", got.Sessions, got.Messages, got.Live, verdict)
}
