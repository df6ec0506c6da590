package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"gatewayd/internal/logfile"
	"gatewayd/internal/problem"
)

// logsLast is how many records are shown when nobody says how many.
const logsLast = 200

func (c *cli) logsVerb() *cobra.Command {
	var follow bool
	var since, level string
	var last int
	attrs := map[string]*string{"session": nil, "task": nil, "board": nil}
	cmd := c.readVerb(&cobra.Command{
		Use: "logs", Short: "Print what the daemon said; it need not run", Args: exactly(0),
		Long: "The daemon keeps what it says in <home>/logs, wherever else it goes. The newest 200 records are printed, or those that the flags ask for;\n" +
			"-f goes on with new ones until Ctrl-C. What workers print is their cards' own: `gatewayd kanban log CARD`.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := logfile.Filter{Attrs: map[string]string{}, Last: last}
			for key, value := range attrs {
				if *value != "" {
					f.Attrs[key] = *value
				}
			}
			var err error
			if f.Since, err = timeOf("since", since, time.Now()); err != nil {
				return err
			}
			if err := f.Level.UnmarshalText([]byte(level)); err != nil || last < 0 {
				return usagef("--level must be debug, info, warn or error, and -n a number that is not negative")
			}
			if since != "" && !cmd.Flags().Changed("last") {
				f.Last = 0
			}
			return c.logs(cmd.Context(), f, follow)
		},
	})
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on with what the daemon says from now on")
	flags.IntVarP(&last, "last", "n", logsLast, "the newest N records; 0 is all")
	flags.StringVar(&since, "since", "", "not older than this: 90s, 2h, 3d, a date or a moment")
	flags.StringVar(&level, "level", "debug", "not less grave than debug, info, warn or error")
	for _, key := range []string{"session", "task", "board"} {
		attrs[key] = flags.String(key, "", "only what is about this "+key)
	}
	return cmd
}

// logs prints records as a terminal shows them, or as they were written.
func (c *cli) logs(ctx context.Context, f logfile.Filter, follow bool) error {
	home, err := c.homeDir()
	if err != nil {
		return err
	}
	show := c.recordPrinter()
	if follow {
		ctx, stop := untilStopped(ctx)
		defer stop()
		return logfile.Follow(ctx, home, f, show)
	}
	odd, err := logfile.Read(home, f, show)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &problem.Error{
			Kind: problem.NotFound, Thing: logfile.Path(home), What: "does not exist", Fate: "no daemon of this home has said anything yet",
			Remedy: "start one with `gatewayd --foreground`, or name its directory with --home",
		}
	case err != nil:
		return unreadable("logs of "+home, "make them readable", err)
	case odd > 0:
		fmt.Fprintf(c.std.err, "%d lines are no records and were passed over; they stay in %s\n", odd, logfile.Path(home))
	}
	return nil
}

func (c *cli) recordPrinter() func(logfile.Record) {
	if c.json {
		return func(r logfile.Record) { fmt.Fprintln(c.std.out, line(r.Line)) }
	}
	handler := tint.NewTextHandler(c.std.out, &tint.Options{Level: slog.LevelDebug, TimeFormat: time.DateTime, NoColor: !isTerminal(c.std.out)})
	return func(r logfile.Record) {
		r.Time = r.Time.Local()
		r.Message = line(r.Message)
		_ = handler.Handle(context.Background(), r.Record)
	}
}

// timeOf reads a time that a person names: how long ago, a date, or a moment.
func timeOf(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil {
		return now.Add(-ago), nil
	}
	var days int
	if n, err := fmt.Sscanf(s, "%dd", &days); err == nil && n == 1 && s == fmt.Sprintf("%dd", days) {
		return now.AddDate(0, 0, -days), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--%s must be a time such as 90s, 2h, 3d, 2026-12-24 or 2026-12-24T09:30, not %q", flag, s)
}
