package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// theSpool is what `sessions salvage` calls the rows that wait beside the store.
const theSpool = "spool"

func (c *cli) sessionsSalvageVerb() *cobra.Command {
	var dry bool
	cmd := c.readVerb(&cobra.Command{
		Use: "salvage [CAPTURE]", Short: "Bring back rows that the store lost, or could not take; lists them without CAPTURE",
		Long: "Bring back what a capture of a lost write-ahead log holds and the store lacks, by the uid of each row.\n" +
			"CAPTURE is its directory or its name; \"spool\" stands for the rows that wait in the spool, those that were kept with a reason too.\n" +
			"Without CAPTURE, list what there is and what it would bring back.",
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return c.listLost(cmd.Context())
			case args[0] == theSpool:
				return c.replaySpool(cmd.Context(), dry)
			}
			return c.salvage(cmd.Context(), args[0], dry)
		},
	})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only count what would come back")
	return cmd
}

// lost is what `sessions salvage` lists.
type lost struct {
	Store    sessiondb.Health          `json:"store"`
	Holds    []sessiondb.SalvageReport `json:"holds"` // what each whole capture that is not salvaged would bring back
	Problems []string                  `json:"problems,omitempty"`
}

// listLost tells what lies beside the store, also of one that cannot be opened.
func (c *cli) listLost(ctx context.Context) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	found := lost{Store: sessiondb.Beside(resolved(storePath(loaded.Config))), Holds: []sessiondb.SalvageReport{}}
	err = c.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) error {
		found.Store = s.Health()
		for _, seen := range found.Store.Captures {
			if seen.Salvaged || !seen.Whole {
				continue
			}
			report, err := s.Salvage(ctx, sqlite.FindCapture(seen.Dir), true)
			if err != nil {
				found.Problems = append(found.Problems, err.Error())
				continue
			}
			found.Holds = append(found.Holds, report)
		}
		return nil
	})
	if err != nil {
		found.Problems = append(found.Problems, err.Error())
	}
	c.none(len(found.Store.Captures)+found.Store.Spool.Rows+found.Store.Spool.Kept, "nothing is lost: no capture and no spooled row lies beside %s", found.Store.Path)
	return c.emit(found, func(w io.Writer) { printLost(w, found) })
}

func printLost(w io.Writer, found lost) {
	spool := found.Store.Spool
	if spool.Rows+spool.Kept > 0 {
		fmt.Fprintf(w, "%s: %d rows wait for the store, %d batches are kept with a reason; bring them back with `gatewayd sessions salvage spool`\n",
			line(spool.Path), spool.Rows, spool.Kept)
	}
	holds := map[string]sessiondb.SalvageReport{}
	for _, h := range found.Holds {
		holds[h.Capture] = h
	}
	if len(found.Store.Captures) > 0 {
		table(w, func(row func(...any)) {
			row("CAPTURE", "FROM", "WHY", "HOLDS")
			for _, seen := range found.Store.Captures {
				row(filepath.Base(seen.Dir), when(seen.At), seen.Reason, holding(seen, holds))
			}
		})
	}
	for _, p := range found.Problems {
		fmt.Fprintln(w, line(p))
	}
}

func holding(seen sessiondb.CaptureState, holds map[string]sessiondb.SalvageReport) string {
	h, looked := holds[seen.Dir]
	switch {
	case seen.Salvaged:
		return "nothing that the store lacks: it is salvaged, the directory can be removed"
	case !seen.Whole:
		return "the log alone, the database was too large to copy: see the documentation"
	case !looked:
		return "cannot be read"
	}
	return fmt.Sprintf("%d rows and %d sessions that the store lacks, %d rows in a newer state", h.Messages, h.Sessions, h.Changed)
}

func (c *cli) salvage(ctx context.Context, name string, dry bool) error {
	return c.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) error {
		dir := name
		if !strings.ContainsRune(name, filepath.Separator) {
			dir = filepath.Join(filepath.Dir(s.File().Path()), name)
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return &problem.Error{
				Kind: problem.NotFound, Thing: "capture " + dir, What: "does not exist", Fate: "nothing was changed",
				Remedy: "list the existing ones with `gatewayd sessions salvage`",
			}
		}
		report, err := s.Salvage(ctx, sqlite.FindCapture(dir), dry)
		if err != nil {
			return err
		}
		return c.emit(report, func(w io.Writer) { printSalvage(w, report) })
	})
}

func printSalvage(w io.Writer, r sessiondb.SalvageReport) {
	verb := "came back"
	if r.DryRun {
		verb = "would come back"
	}
	fmt.Fprintf(w, "%d rows and %d sessions %s; %d rows got their newer state, %d sums of usage were raised\n", r.Messages, r.Sessions, verb, r.Changed, r.Usage)
	if len(r.Parted) > 0 {
		fmt.Fprintf(w, "behind rows that are newer: %s\n", line(strings.Join(r.Parted, ", ")))
	}
	if len(r.Deleted) > 0 {
		fmt.Fprintf(w, "left out, because they were deleted: %s\n", line(strings.Join(r.Deleted, ", ")))
	}
	if len(r.Busy) > 0 {
		fmt.Fprintf(w, "left out, because a turn is running: %s; run it again\n", line(strings.Join(r.Busy, ", ")))
	}
}

func (c *cli) replaySpool(ctx context.Context, dry bool) error {
	if dry {
		return c.listLost(ctx)
	}
	return c.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) error {
		out, err := s.Replay(ctx, true)
		if err != nil {
			return err
		}
		if err := c.emit(out, func(w io.Writer) {
			fmt.Fprintf(w, "%d rows came back, %d were there already, %d wait for a running turn\n", out.Stored, out.Already, out.Waiting)
			for _, k := range out.Kept {
				fmt.Fprintf(w, "kept: %d rows of session %s: %s\n", k.Rows, line(k.Session), line(k.Reason))
			}
		}); err != nil || len(out.Kept) == 0 {
			return err
		}
		return &problem.Error{
			Kind: problem.Conflict, Thing: fmt.Sprintf("%d spooled batches", len(out.Kept)), What: "cannot be stored",
			Fate: "they stay in " + s.Health().Spool.Path, Remedy: "see their reasons above",
		}
	})
}

// resolved follows links as the store does; a path that cannot be followed stays.
func resolved(path string) string {
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	return path
}
