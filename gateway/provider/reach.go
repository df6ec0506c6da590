package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/problem"
)

// Reached is what a server said when it was asked for its models.
type Reached struct {
	Models int           // that it lists
	Listed bool          // the configured one is among them; also when none is configured
	Window int           // tokens of that one, 0 where the list does not say
	Took   time.Duration // until the answer
}

// Reach asks a configured server for its list of models: the smallest question that shows that it is there and takes the key. It costs no tokens,
// and blocks until ctx ends at the longest.
func Reach(ctx context.Context, o Options) (Reached, error) {
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	c, ok := New(o).(*client)
	if !ok {
		return Reached{}, errors.New("no server is configured")
	}
	begun := time.Now()
	models, err := c.list(ctx)
	r := Reached{Models: len(models), Listed: strings.TrimSpace(o.Name) == "", Took: time.Since(begun)}
	for _, m := range models {
		if m.is(o.Name) {
			r.Listed, r.Window = true, m.Window
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return r, &problem.Error{Kind: problem.Unavailable, Thing: c.Describe().BaseURL, What: fmt.Sprintf("gave no answer within %v", r.Took.Round(100*time.Millisecond)), Remedy: "start the server, or correct model.base_url"}
	}
	return r, err
}
