package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
)

func (c *cli) whyVerb() *cobra.Command {
	v := &boardVerbs{cli: c}
	cmd := c.readVerb(&cobra.Command{
		Use: "why [CARD]", Short: "Say why a card is not running, or why every waiting card of a board is not",
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answers, err := v.why(cmd.Context(), args)
			if err != nil {
				return err
			}
			return c.emit(answers, func(w io.Writer) {
				if len(answers) == 0 {
					fmt.Fprintln(w, "no card is waiting")
				}
				for _, why := range answers {
					printWhy(w, why)
				}
			})
		},
	})
	cmd.Flags().StringVar(&v.slug, "board", "", "board (default: the current one)")
	return cmd
}

// why asks for one card, or for every card of the board that waits. A board whose file is damaged has one answer for all.
func (v *boardVerbs) why(ctx context.Context, cards []string) ([]dispatch.Why, error) {
	answers := []dispatch.Why{}
	err := v.onBoard(ctx, func(ctx context.Context, h house, b *kanban.Board) error {
		cards, err := waiting(ctx, b, cards)
		if err != nil {
			return err
		}
		ask, err := v.whyAsker(h, b)
		if err != nil {
			return err
		}
		for _, card := range cards {
			why, err := ask(ctx, card)
			if err != nil {
				return err
			}
			answers = append(answers, why)
		}
		return nil
	})
	if !errors.Is(err, kanban.ErrCorruptBoard) {
		return answers, err
	}
	return v.whyUnreadable(ctx, cards, err)
}

// whyUnreadable: the daemon knows since when the file is damaged; without one there is what this process has just seen.
func (v *boardVerbs) whyUnreadable(ctx context.Context, cards []string, damage error) ([]dispatch.Why, error) {
	h, err := v.openRoot()
	if err != nil {
		return nil, err
	}
	slug, err := v.board(h)
	if err != nil {
		return nil, err
	}
	why := dispatch.Unreadable(slug, strings.Join(cards, " "), damage)
	var s status
	if cl, err := v.dial(); err == nil && cl.call(ctx, http.MethodGet, "/api/status", nil, &s) == nil {
		for _, b := range s.Dispatcher.Boards {
			if b.Slug == slug && b.Hold != nil {
				why.Holds = []dispatch.Hold{*b.Hold}
			}
		}
	}
	return []dispatch.Why{why}, nil
}

// waiting gives the named card, or every card of the board that is neither running nor at its end.
func waiting(ctx context.Context, b *kanban.Board, named []string) ([]string, error) {
	if len(named) > 0 {
		_, err := b.Task(ctx, named[0])
		return named, err
	}
	tasks, err := b.List(ctx, kanban.Filter{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range tasks {
		if t.Status != kanban.StatusRunning && t.Status != kanban.StatusDone {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// whyAsker asks the daemon, which knows its caps and locks. Without one, that is the first thing that holds a card,
// and the rest is read from the board alone.
func (c *cli) whyAsker(h house, b *kanban.Board) (func(context.Context, string) (dispatch.Why, error), error) {
	lanes, err := worker.NewLanes(h.Kanban, h.KeyVariables()...)
	if err != nil {
		return nil, err
	}
	cl, absent := c.dial()
	return func(ctx context.Context, card string) (why dispatch.Why, err error) {
		if absent == nil {
			absent = cl.call(ctx, http.MethodGet, "/api/boards/"+string(b.Slug())+"/tasks/"+card+"/why", nil, &why)
		}
		if absent == nil || !problem.Is(absent, problem.NotRunning) {
			return why, absent
		}
		return explainAlone(ctx, h, lanes, b, card)
	}, nil
}

func explainAlone(ctx context.Context, h house, lanes *worker.Lanes, b *kanban.Board, card string) (dispatch.Why, error) {
	facts, err := dispatch.Facts(ctx, b, card)
	if err != nil {
		return dispatch.Why{}, err
	}
	return dispatch.Explain(facts, dispatch.Situation{
		Now: time.Now(), Lanes: lanes, DefaultAssignee: h.Kanban.DefaultAssignee, Limits: dispatch.DefaultLimits(h.Kanban.RateLimitCooldown),
		Dispatcher: nobodyOfOurs(h),
	}), nil
}

// nobodyOfOurs: without a daemon of this home, another one may serve the boards, and start the card.
func nobodyOfOurs(h house) *dispatch.Hold {
	lock := dispatch.StateOfRoot(h.root)
	if lock.Held {
		return &dispatch.Hold{
			Reason: dispatch.NotLeader, Detail: lockWords(lock) + " dispatches on " + h.root.Dir() + "; what it knows of lanes and caps is not told here", Since: lock.From,
			Remedy: "ask there: it starts the cards",
		}
	}
	detail := "no daemon runs for home " + h.Home
	if lock.PID != 0 {
		detail += fmt.Sprintf("; process %d on %s dispatched last", lock.PID, lock.Host)
	}
	return &dispatch.Hold{Reason: dispatch.NoDispatcher, Detail: detail, Remedy: "start it: gatewayd --foreground"}
}

func printWhy(w io.Writer, why dispatch.Why) {
	about, status := line(why.Task), string(why.Status)
	if status == "" { // the board cannot be read
		about, status = strings.TrimSpace("board "+string(why.Board)+"  "+about), "not readable"
	}
	fmt.Fprintf(w, "%s %s  %s\n", statusIcon(status), about, line(status))
	for _, hold := range why.Holds {
		fmt.Fprintf(w, "    %s: %s\n", hold.Reason, strings.TrimSpace(indented(hold.Detail, "        ")))
		if hold.Since != nil {
			fmt.Fprintf(w, "        since %s\n", when(*hold.Since))
		}
		if hold.Until != nil {
			fmt.Fprintf(w, "        until %s\n", when(*hold.Until))
		}
		if hold.Remedy != "" {
			fmt.Fprintf(w, "        remedy: %s\n", line(hold.Remedy))
		}
	}
}
