package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"gatewayd/config"
)

func (c *cli) configVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check, show and reload the configuration", Args: verbs, RunE: help}
	cmd.AddCommand(c.configCheckVerb(), c.configShowVerb(), c.configReloadVerb())
	return cmd
}

func (c *cli) configCheckVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "check", Short: "Say whether the daemon would start with this configuration", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			answer := map[string]any{"ok": true, "path": loaded.Path, "warnings": append([]string{}, loaded.Warnings...)}
			return c.emit(answer, func(w io.Writer) {
				for _, warning := range loaded.Warnings {
					fmt.Fprintf(w, "warning: %s\n", warning)
				}
				fmt.Fprintf(w, "ok: %s\n", loaded.Path)
			})
		},
	})
}

func (c *cli) configReloadVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "reload", Short: "Have the running daemon read its configuration again",
		Long: "The daemon takes what may change while it runs, and says what counts from its next start on only. A configuration that is wrong is\n" +
			"refused as a whole and changes nothing. SIGHUP and `systemctl reload` do the same; the log then says what came of it.",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.dial()
			if err != nil {
				return err
			}
			var out reloaded
			if err := cl.call(cmd.Context(), http.MethodPost, "/api/config/reload", nil, &out); err != nil {
				return err
			}
			return c.emit(out, func(w io.Writer) { printReloaded(w, out) })
		},
	})
}

func printReloaded(w io.Writer, out reloaded) {
	for _, warning := range out.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text(warning))
	}
	if len(out.Changed)+len(out.Restart) == 0 {
		fmt.Fprintf(w, "nothing has changed: %s\n", line(out.Path))
		return
	}
	table(w, func(row func(...any)) {
		row("KEY", "FROM", "TO", "COUNTS")
		for _, c := range out.Changed {
			row(c.Key, c.From, c.To, c.Live)
		}
		for _, c := range out.Restart {
			row(c.Key, c.From, c.To, counts(""))
		}
	})
}

func (c *cli) configShowVerb() *cobra.Command {
	var changed, origin bool
	cmd := c.readVerb(&cobra.Command{
		Use: "show", Short: "Print every setting in force and where it comes from", Args: exactly(0),
		Long: "A flag wins over a variable, a variable over config.yaml, config.yaml over .env, and .env over the default. COUNTS says from when on\n" +
			"a change counts in a running daemon that is told to reload.",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			rows := loaded.Rows()
			if changed {
				rows = slices.DeleteFunc(rows, func(r config.Row) bool { return r.Source == config.FromDefault })
			}
			return c.emit(rows, func(w io.Writer) { printSettings(w, rows, origin) })
		},
	})
	cmd.Flags().BoolVar(&origin, "origin", false, "also what each value overrules")
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not the default")
	return cmd
}

func printSettings(w io.Writer, rows []config.Row, origin bool) {
	table(w, func(row func(...any)) {
		if origin {
			row("KEY", "VALUE", "FROM", "PLACE", "OVERRULES", "COUNTS")
		} else {
			row("KEY", "VALUE", "FROM", "PLACE", "COUNTS")
		}
		for _, r := range rows {
			words := []any{r.Key, r.Value, r.Source, r.Place}
			if origin {
				words = append(words, r.Over)
			}
			row(append(words, counts(r.Live))...)
		}
	})
}

// counts is from when on a setting counts.
func counts(live string) string {
	if live == "" {
		return "from the next start on"
	}
	return live
}
