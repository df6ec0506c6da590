package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

const demoBoard = "demo"

// demoCard is what the demo reads of a card.
type demoCard struct {
	ID       string
	Title    string
	Assignee string
	Status   string
}

// demoDetail is a card with its history.
type demoDetail struct {
	Task   demoCard
	Events []struct{ Kind string }
	Runs   []struct {
		Outcome string
		Status  string
	}
}

func (d demoDetail) count(kind string) (n int) {
	for _, e := range d.Events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// playBoard creates a board whose cards want the lanes of demoConfig, and shows them until each is at its end.
func (d *demo) playBoard(ctx context.Context) error {
	if err := d.call(ctx, http.MethodPost, "/api/boards", map[string]any{"slug": demoBoard, "name": "Demo"}, nil); err != nil {
		return err
	}
	design, err := d.card(ctx, "Design the thing", "design")
	if err != nil {
		return err
	}
	build, err := d.card(ctx, "Build the thing", "build", design)
	if err != nil {
		return err
	}
	if _, err := d.card(ctx, "Ship the thing", "ship", build); err != nil {
		return err
	}
	if _, err := d.card(ctx, "Crash twice", "crash"); err != nil {
		return err
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	return d.checkBoard(ctx)
}

func (d *demo) card(ctx context.Context, title, lane string, parents ...string) (string, error) {
	var made struct{ Task demoCard }
	err := d.call(ctx, http.MethodPost, "/api/boards/"+demoBoard+"/tasks", map[string]any{
		"title": title, "assignee": lane, "parents": parents, "body": "A card of the demo.",
	}, &made)
	d.order[made.Task.ID] = len(d.order)
	return made.Task.ID, err
}

func (d *demo) cards(ctx context.Context) ([]demoCard, error) {
	var list struct{ Tasks []demoCard }
	err := d.call(ctx, http.MethodGet, "/api/boards/"+demoBoard+"/tasks", nil, &list)
	slices.SortFunc(list.Tasks, func(a, b demoCard) int { return d.order[a.ID] - d.order[b.ID] })
	return list.Tasks, err
}

func (d *demo) detail(ctx context.Context, id string) (demoDetail, error) {
	var detail demoDetail
	err := d.call(ctx, http.MethodGet, "/api/boards/"+demoBoard+"/tasks/"+id, nil, &detail)
	return detail, err
}

// watch shows the cards until none can move any more: a table that redraws itself on a terminal, a line for each
// change in a pipe.
func (d *demo) watch(ctx context.Context) error {
	show := d.showLines()
	if isTerminal(d.out) {
		show = d.showTable()
	}
	return d.until(ctx, func() (bool, error) {
		cards, err := d.cards(ctx)
		if err != nil {
			return false, err
		}
		show(cards)
		return !slices.ContainsFunc(cards, func(c demoCard) bool { return c.Status != "done" && c.Status != "blocked" }), nil
	})
}

func (d *demo) showLines() func([]demoCard) {
	began, last := time.Now(), map[string]string{}
	return func(cards []demoCard) {
		for _, c := range cards {
			if last[c.ID] != c.Status {
				d.say("%5.2f s  %-16s %-7s %s", time.Since(began).Seconds(), c.Title, c.Assignee, c.Status)
				last[c.ID] = c.Status
			}
		}
	}
}

func (d *demo) showTable() func([]demoCard) {
	drawn := 0
	return func(cards []demoCard) {
		var b strings.Builder
		if drawn > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", drawn)
		}
		for _, c := range cards {
			fmt.Fprintf(&b, "\x1b[2K   %s %-16s %-7s %s\n", statusIcon(c.Status), c.Title, c.Assignee, c.Status)
		}
		drawn = len(cards)
		fmt.Fprint(d.out, b.String())
	}
}

// checkBoard reads the history of each card: what ran, how often, and how it ended.
func (d *demo) checkBoard(ctx context.Context) error {
	cards, err := d.cards(ctx)
	if err != nil {
		return err
	}
	done, runs, crashes := 0, 0, 0
	for _, c := range cards {
		detail, err := d.detail(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.Assignee == "crash" {
			crashes = detail.count("crashed")
			d.claim(c.Status == "blocked" && detail.count("crashed") == 2 && detail.count("gave_up") == 1,
				"%q crashed %d times, was retried, and the breaker blocked it", c.Title, detail.count("crashed"))
			continue
		}
		runs += len(detail.Runs)
		if c.Status == "done" && detail.count("completed") == 1 && len(detail.Runs) == 1 {
			done++
		}
	}
	d.counted(done, "linked cards completed, parents first")
	d.counted(runs, "worker runs for them")
	d.counted(crashes, "crashes of a fourth card before the breaker blocked it")
	d.claim(done == 3 && runs == 3, "%d linked cards completed, parents first, each by one worker run (%d runs)", done, runs)
	return nil
}

// checkSurvivor lets the worker that was started before the kill end, and looks at how its card ends.
func (d *demo) checkSurvivor(ctx context.Context) error {
	if err := os.WriteFile(d.gate(), nil, 0o600); err != nil {
		return err
	}
	var long demoDetail
	err := d.until(ctx, func() (bool, error) {
		var err error
		long, err = d.detail(ctx, d.survivor)
		return long.Task.Status == "done" || long.Task.Status == "blocked", err
	})
	if err != nil {
		return err
	}
	d.counted(len(long.Runs), "run of a worker that outlived its daemon and was adopted")
	d.claim(long.Task.Status == "done" && len(long.Runs) == 1 && long.count("completed") == 1,
		"a worker of the killed daemon went on, was adopted and completed its card: %d run, %s", len(long.Runs), long.Task.Status)
	return nil
}
