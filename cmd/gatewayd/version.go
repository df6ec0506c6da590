package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build; a build from a checkout says which commit it is.
var version = "dev"

// build describes this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (c *cli) versionVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "version", Short: "Print what this binary is", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return c.emit(b, func(w io.Writer) {
				fmt.Fprintf(w, "gatewayd %s %s (%s, %s)\n", b.Version, b.Revision, b.Go, b.Platform)
			})
		},
	})
}
