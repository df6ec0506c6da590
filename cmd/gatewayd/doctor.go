package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/internal/doctor"
)

// diagnosis is what `gatewayd doctor --json` prints.
type diagnosis struct {
	Healthy bool                 `json:"healthy"` // nothing failed
	Counts  map[doctor.State]int `json:"counts"`
	Checks  []doctor.Check       `json:"checks"`
}

func (c *cli) doctorVerb() *cobra.Command {
	var fix, all, large bool
	cmd := c.readVerb(&cobra.Command{
		Use: "doctor", Short: "Check everything that the daemon depends on; changes nothing without --fix",
		Long: "Looks at the configuration, the home, the service, the model's server and every database, whether the daemon runs or not, and says\n" +
			"for each what to do. Databases are read from private copies: nothing that is in use is opened. It ends with 1 where something failed.\n" +
			"docs/doctor.md explains every check.",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			house, closed, err := c.house()
			if err != nil {
				return err
			}
			defer closed()
			house.Large = large
			checks := doctor.Examine(cmd.Context(), house)
			if fix {
				doctor.Mend(cmd.Context(), checks)
			}
			counts := doctor.Counts(checks)
			err = c.emit(diagnosis{counts[doctor.Fail] == 0, counts, checks}, func(w io.Writer) { printChecks(w, checks, all) })
			if err == nil && counts[doctor.Fail] > 0 {
				err = codeError(exitFailed)
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&fix, "fix", false, "mend what is safe to mend: modes of files in the home, a large log of a database that nobody has open")
	cmd.Flags().BoolVar(&all, "all", false, "a line for each check of each board, also where all is well with it")
	cmd.Flags().BoolVar(&large, "large", false, "copy and check databases above a gigabyte, too")
	return cmd
}

var checkSigns = map[doctor.State]string{doctor.OK: "✓", doctor.Warn: "!", doctor.Fail: "✗", doctor.Unknown: "?", doctor.Skipped: "-"}

// printChecks shows each check in a line, and what to do about it in the next. What is well with a board is one line, unless all is asked for.
func printChecks(w io.Writer, checks []doctor.Check, all bool) {
	table(w, func(row func(...any)) {
		for i := 0; i < len(checks); i++ {
			ch := checks[i]
			if n := wellTogether(checks[i:]); n > 1 && !all {
				row(checkSigns[doctor.OK]+" "+ch.Subject, string(doctor.OK), fmt.Sprintf("%d checks, %s", n, saysOf(checks[i:i+n], "rows")))
				i += n - 1
				continue
			}
			row(checkSigns[ch.State]+" "+labelOf(ch), string(ch.State), ch.Says)
			if ch.Fixed != "" {
				row("", "", "fixed: "+ch.Fixed)
			}
			if ch.Remedy != "" {
				row("", "", "remedy: "+ch.Remedy)
			}
		}
	})
	n := doctor.Counts(checks)
	fmt.Fprintf(w, "\n%d ok, %d to look at, %d failed, %d unknown, %d skipped\n", n[doctor.OK], n[doctor.Warn], n[doctor.Fail], n[doctor.Unknown], n[doctor.Skipped])
}

func labelOf(ch doctor.Check) string {
	switch {
	case ch.Subject == "":
		return ch.Name
	case ch.Name == "lane":
		return "lane " + ch.Subject
	}
	return ch.Subject + " " + ch.Name
}

// wellTogether counts the checks at the beginning that are of one board and well.
func wellTogether(checks []doctor.Check) (n int) {
	for _, ch := range checks {
		if ch.Subject != checks[0].Subject || ch.State != doctor.OK || ch.Fixed != "" || !strings.HasPrefix(ch.Subject, "board ") {
			break
		}
		n++
	}
	return n
}

func saysOf(checks []doctor.Check, name string) string {
	for _, ch := range checks {
		if ch.Name == name {
			return ch.Says
		}
	}
	return checks[0].Says
}
