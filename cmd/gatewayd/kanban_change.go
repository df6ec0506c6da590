package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// order is what one command line wants of one board.
type order struct {
	house
	*kanban.Board
	rest string // the words after the card
}

// deed does a verb to one card.
type deed func(ctx context.Context, o order, card string) (outcome, error)

// outcome is what a verb did: a line for people, what is still to come, and what --json has beside the card.
type outcome struct {
	says, note string
	beside     map[string]any
	gone       bool // there is no card any more
}

// change makes a verb that changes one card, named first or the worker's own, and says what it did.
func (v *boardVerbs) change(use, short string, args cobra.PositionalArgs, do func(ctx context.Context, h house, b *kanban.Board, card, rest string) (string, error)) *cobra.Command {
	return v.deed(use, short, args, func(ctx context.Context, o order, card string) (outcome, error) {
		said, err := do(ctx, o.house, o.Board, card, o.rest)
		return outcome{says: said}, err
	})
}

// deed is change for a verb that has more to say.
func (v *boardVerbs) deed(use, short string, args cobra.PositionalArgs, do deed) *cobra.Command {
	return v.readVerb(&cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		return v.perform(cmd, args[:min(len(args), 1)], words(args, 1), do)
	}})
}

// each makes a verb that does the same to every card it is given, or to the worker's own.
func (v *boardVerbs) each(use, short string, do deed) *cobra.Command {
	return v.readVerb(&cobra.Command{Use: use, Short: short, Args: atLeast(0), RunE: func(cmd *cobra.Command, args []string) error {
		return v.perform(cmd, args, "", do)
	}})
}

// reasoned makes a verb that says the same of one card, or with --ids of more.
func (v *boardVerbs) reasoned(use, short string, args cobra.PositionalArgs, do deed) *cobra.Command {
	var more []string
	cmd := v.readVerb(&cobra.Command{Use: use, Short: short, Args: args})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if last := args[len(args)-1]; len(more) > 0 && len(args) > 1 && strings.HasPrefix(last, "t_") {
			return usagef("%q stands among the words of the reason; give further cards as --ids %s,%s", last, strings.Join(more, ","), last)
		}
		return v.perform(cmd, append(args[:1:1], more...), words(args, 1), do)
	}
	cmd.Flags().StringSliceVar(&more, "ids", nil, "further cards, with commas")
	return cmd
}

// perform does a verb to the cards, each by itself: one that refuses does not keep the others from it. What a worker may not
// ask for is refused before anything is tried.
func (v *boardVerbs) perform(cmd *cobra.Command, cards []string, rest string, do deed) error {
	return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
		if len(cards) == 0 {
			own, err := h.card(nil)
			if err != nil {
				return err
			}
			cards = []string{own}
		}
		guarded := func(ctx context.Context, card string) (outcome, error) {
			if err := h.actor().May(cmd.Name(), card); err != nil {
				return outcome{}, err
			}
			return do(ctx, order{h, b, rest}, card)
		}
		if cards = distinct(cards); len(cards) == 1 {
			return v.one(ctx, b, cards[0], guarded)
		}
		return v.many(ctx, b, cards, guarded)
	})
}

func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (v *boardVerbs) one(ctx context.Context, b *kanban.Board, card string, do func(context.Context, string) (outcome, error)) error {
	out, err := do(ctx, card)
	if err != nil {
		return err
	}
	after, err := out.json(ctx, b, card)
	if err != nil {
		return err
	}
	return v.emit(after, func(w io.Writer) { v.say(w, out) })
}

// say prints what was done, and beside it what is still to come.
func (v *boardVerbs) say(w io.Writer, out outcome) {
	fmt.Fprintln(w, out.says)
	if out.note != "" {
		fmt.Fprintln(v.std.err, "note: "+out.note)
	}
}

// json is the card as it is now, with the verb's own words beside it.
func (o outcome) json(ctx context.Context, b *kanban.Board, card string) (map[string]any, error) {
	body := map[string]any{}
	if !o.gone {
		task, err := b.Task(ctx, card)
		if err != nil {
			return nil, err
		}
		body["task"] = task
	}
	maps.Copy(body, o.beside)
	return body, nil
}

func (v *boardVerbs) many(ctx context.Context, b *kanban.Board, cards []string, do func(context.Context, string) (outcome, error)) error {
	results := make([]map[string]any, 0, len(cards))
	failed := false
	for _, card := range cards {
		out, err := do(ctx, card)
		result := map[string]any{}
		if err == nil {
			result, err = out.json(ctx, b, card)
		}
		if err != nil {
			failed = true
			result = map[string]any{"error": message(err)}
			if !v.json {
				fmt.Fprintf(v.std.err, "gatewayd: %s\n", text(message(err)))
			}
		} else if !v.json {
			v.say(v.std.out, out)
		}
		result["id"], result["ok"] = card, err == nil
		results = append(results, result)
	}
	if v.json {
		if err := v.emit(map[string]any{"results": results}, nil); err != nil {
			return err
		}
	}
	if failed {
		return errSaid
	}
	return nil
}

// actor is who speaks here: the worker of a run, or a person.
func (h house) actor() kanban.Actor {
	a := kanban.Actor{Name: h.speaker()}
	if h.Worker != nil {
		a.Task, a.Run = h.Worker.Task, kanban.RunID(h.Worker.Run)
	}
	return a
}

// fenced adds --run to a verb: the attempt that the caller acts for. Inside a worker it is the worker's own.
func fenced(cmd *cobra.Command, run *int64) *cobra.Command {
	cmd.Flags().Int64Var(run, "run", 0, "the attempt that this is said for (a worker's own by default)")
	return cmd
}

// fence is the run that the caller acts for: the one that was named, or a worker's own. A worker cannot name another.
func (h house) fence(card string, given int64) (*kanban.RunID, error) {
	own := h.actor().Fence(card)
	if given == 0 {
		return own, nil
	}
	run := kanban.RunID(given)
	if h.actor().Worker() && (own == nil || *own != run) {
		return nil, &problem.Error{
			Kind: problem.Denied, Thing: fmt.Sprintf("run %d", given), What: fmt.Sprintf("is not this worker's, which is run %d", h.Worker.Run),
			Fate: "nothing was changed", Remedy: "leave --run out",
		}
	}
	return &run, nil
}

// released says what became of a card that was taken from its run.
func released(card, now string, r kanban.Released) outcome {
	out := outcome{says: card + " " + now, note: r.Note(), beside: map[string]any{"released": r}}
	if !r.Now {
		out.says = fmt.Sprintf("worker %d of %s is asked to end", r.Worker, card)
	}
	if n := len(r.Descendants); n > 0 {
		out.says += fmt.Sprintf("; what was built on it goes back to todo: %s", strings.Join(r.Descendants, ", "))
	}
	return out
}
