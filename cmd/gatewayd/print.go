package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// emit prints v as JSON when --json was given, else as text.
func (c *cli) emit(v any, text func(w io.Writer)) error {
	if !c.json {
		text(c.std.out)
		return nil
	}
	enc := json.NewEncoder(c.std.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints aligned columns.
func table(w io.Writer, rows func(row func(cells ...any))) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, cell)
		}
		fmt.Fprintln(tw)
	})
	tw.Flush()
}

// isTerminal reports whether a stream is a terminal, so that a pipe gets plain lines.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// when prints a moment as people say it: local time, to the minute.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}
