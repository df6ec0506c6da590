package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"gatewayd/config"
)

func (c *cli) configVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and show the configuration", Args: verbs, RunE: help}
	cmd.AddCommand(c.configCheckVerb(), c.configShowVerb())
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

func (c *cli) configShowVerb() *cobra.Command {
	var changed bool
	cmd := c.readVerb(&cobra.Command{
		Use: "show", Short: "Print every setting in force and where it comes from", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			rows := loaded.Rows()
			if changed {
				rows = slices.DeleteFunc(rows, func(r config.Row) bool { return r.Source == config.FromDefault })
			}
			return c.emit(rows, func(w io.Writer) {
				table(w, func(row func(...any)) {
					row("KEY", "VALUE", "FROM", "PLACE")
					for _, r := range rows {
						row(r.Key, r.Value, r.Source, r.Place)
					}
				})
			})
		},
	})
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not the default")
	return cmd
}
