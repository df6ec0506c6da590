package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/gateway/api"
	"gatewayd/internal/problem"
)

// healthTime bounds the verb, file system and all: whoever runs it kills it after 5 s, and would not know why.
const healthTime = 4 * time.Second

// wellness is what /health/detailed says, as far as it decides.
type wellness struct {
	Status string      `json:"status"`
	Checks []api.Check `json:"checks"`
}

func (c *cli) healthVerb() *cobra.Command {
	var live bool
	cmd := c.readVerb(&cobra.Command{
		Use: "health", Short: "Say in one line whether the daemon is well, for health checks and probes", Args: exactly(0),
		Long: "health asks the running daemon and ends within 4 s: with 0 when it is well, with 1 when a part has failed, when it is stopping or when\n" +
			"it gives no answer, and with 69 when it does not run. --live ends with 1 only where starting it again would help.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := c.askHealth(cmd.Context())
			if err != nil {
				return err
			}
			if err := w.refusal(live); err != nil {
				return err
			}
			return c.emit(w, func(out io.Writer) { fmt.Fprintln(out, line(w.sentence())) })
		},
	})
	cmd.Flags().BoolVar(&live, "live", false, "only whether it has to be started again")
	return cmd
}

// askHealth also ends in time where reading the home hangs.
func (c *cli) askHealth(ctx context.Context) (wellness, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	type answer struct {
		wellness
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		cl, err := c.dial()
		if err == nil {
			err = cl.call(ctx, http.MethodGet, "/health/detailed", nil, &a.wellness)
		}
		a.err = err
		answered <- a
	}()
	select {
	case a := <-answered:
		if ctx.Err() == nil {
			return a.wellness, a.err
		}
	case <-ctx.Done():
	}
	return wellness{}, &problem.Error{Kind: problem.Unavailable, Thing: "the daemon", What: fmt.Sprintf("gave no answer within %v", healthTime), Remedy: "look at its log"}
}

// refusal is why the daemon is not well; live asks only for what ends with this process. A damaged store does not: it is there after a
// start as before, and what can be read is served meanwhile.
func (w wellness) refusal(live bool) error {
	for _, check := range w.Checks {
		if check.Status == "failed" && (!live || check.Name == actorsCheck) {
			return &problem.Error{Kind: problem.Unavailable, Thing: "the daemon", What: "is not well: " + check.Name + ": " + check.Reason}
		}
	}
	if w.Status == "draining" && !live {
		return &problem.Error{Kind: problem.Unavailable, Thing: "the daemon", What: "is stopping", Fate: "what is under way is finished"}
	}
	return nil
}

// sentence is the status and what is not as it should be.
func (w wellness) sentence() string {
	said := []string{w.Status}
	for _, check := range w.Checks {
		if check.Status == "failed" || check.Status == "degraded" {
			said = append(said, check.Name+": "+check.Reason)
		}
	}
	return strings.Join(said, "; ")
}
