package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

func (c *cli) initVerb() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Create the home with a commented configuration and an API key", Args: exactly(0),
		Long: "Create the home, config.yaml with every setting commented out at its default, and api.key.\nNothing that exists is touched. The daemon also starts without a configuration.",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			home, err := config.HoldHome(loaded.Home, config.Holder{PID: os.Getpid(), Since: time.Now()})
			if err != nil {
				return err
			}
			defer home.Release()
			if err := writeExample(loaded.Path); err != nil {
				return err
			}
			if _, _, err := home.APIKey(); err != nil {
				return err
			}
			fmt.Fprintf(c.std.out, "made %s\nnext: edit it, then `gatewayd --foreground`\n", loaded.Path)
			return nil
		},
	}
}

// writeExample writes the commented configuration where there is none yet.
func writeExample(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &problem.Error{Kind: problem.Conflict, Thing: path, What: "exists already", Fate: "it was left as it is", Remedy: "edit it, then run `gatewayd config check`"}
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, err = f.WriteString(config.Example())
	return errors.Join(err, f.Close())
}
