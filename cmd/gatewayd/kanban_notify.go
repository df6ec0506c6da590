package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
	"gatewayd/kanban/notify"
	"gatewayd/sessiondb"
)

// noticeVerbs are the verbs of subscriptions. The names with a dash are those that Hermes has.
func (v *boardVerbs) noticeVerbs() []*cobra.Command {
	cmd := &cobra.Command{Use: "notify", Short: "Who is told of what happens to cards", Args: verbs, RunE: help}
	cmd.AddCommand(v.forPeople(v.subscribeVerb("subscribe [CARD]")), v.subscriptionsVerb("list [CARD]"),
		v.forPeople(v.unsubscribeVerb("unsubscribe SUBSCRIPTION")), v.forPeople(v.retryVerb()), v.forPeople(v.tryVerb()))
	list := []*cobra.Command{cmd}
	for _, twin := range []*cobra.Command{
		v.forPeople(v.subscribeVerb("notify-subscribe [CARD]")), v.subscriptionsVerb("notify-list [CARD]"),
		v.forPeople(v.unsubscribeVerb("notify-unsubscribe SUBSCRIPTION")),
	} {
		twin.Hidden = true
		list = append(list, twin)
	}
	return list
}

func (v *boardVerbs) subscribeVerb(use string) *cobra.Command {
	var kinds []string
	given := map[string]*string{kanban.TargetWebhook: new(string), kanban.TargetCommand: new(string), kanban.TargetSession: new(string)}
	cmd := v.readVerb(&cobra.Command{Use: use, Short: "Have somebody told of a card, or of the whole board without one", Args: between(0, 1)})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := kanban.NewSubscription{Task: words(args, 0), Kinds: kinds}
		for _, target := range kanban.Targets() {
			if address := *given[target]; address != "" && in.Target != "" {
				return usagef("give one of --webhook, --command and --session")
			} else if address != "" {
				in.Target, in.Address = target, address
			}
		}
		if in.Target == "" {
			return usagef("say who is to be told with --webhook NAME, --command NAME or --session ID")
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			in.By = h.speaker()
			if err := notify.NewTargets(h.Kanban.Notify, h.Environ, h.Home, nil, nil).Check(ctx, in.Target, in.Address); err != nil {
				return err
			}
			if err := v.hasTarget(ctx, in); err != nil {
				return err
			}
			made, err := b.Subscribe(ctx, in)
			if err != nil {
				return err
			}
			return v.emit(made, func(w io.Writer) {
				fmt.Fprintf(w, "subscription %d: %s %s is told of %s\n", made.ID, made.Target, line(made.Address), about(made))
			})
		})
	}
	f := cmd.Flags()
	f.StringVar(given[kanban.TargetWebhook], "webhook", "", "a webhook of kanban.notify.webhooks, by its name")
	f.StringVar(given[kanban.TargetCommand], "command", "", "a command of kanban.notify.commands, by its name")
	f.StringVar(given[kanban.TargetSession], "session", "", "a chat session, by its id")
	f.StringSliceVar(&kinds, "kinds", nil, "event kinds (default: what a person wants to hear; * is all)")
	return cmd
}

// hasTarget refuses a chat session that is not in this home: nobody would ever be told.
func (v *boardVerbs) hasTarget(ctx context.Context, in kanban.NewSubscription) error {
	if in.Target != kanban.TargetSession {
		return nil
	}
	return v.onStore(ctx, func(ctx context.Context, s *sessiondb.Store) error {
		_, err := s.Session(ctx, in.Address)
		return err
	})
}

func about(s kanban.Subscription) string {
	if s.Task == "" {
		return "the whole board"
	}
	return "card " + line(s.Task)
}

func (v *boardVerbs) subscriptionsVerb(use string) *cobra.Command {
	return v.readVerb(&cobra.Command{Use: use, Short: "List subscriptions, and what of them is not delivered", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			list, err := b.Subscriptions(ctx, words(args, 0))
			if err != nil {
				return err
			}
			v.none(len(list), "board %s: nobody is told", b.Slug())
			return v.emit(map[string]any{"board": b.Slug(), "subscriptions": append([]kanban.Subscription{}, list...)}, func(w io.Writer) {
				table(w, func(row func(...any)) {
					for _, s := range list {
						row(s.ID, about(s), s.Target+" "+s.Address, fmt.Sprintf("%d delivered, %d pending, %d parked", s.Delivered, s.Pending, s.Parked), standing(s))
					}
				})
			})
		})
	}})
}

// standing says what keeps a subscription's next row.
func standing(s kanban.Subscription) string {
	switch {
	case s.ParkedAt != 0:
		return "parked: " + s.ParkedReason
	case s.LastError != "":
		return s.LastError
	}
	return ""
}

// onSubscription makes a verb about one subscription.
func (v *boardVerbs) onSubscription(use, short string, do func(ctx context.Context, b *kanban.Board, id int64) (string, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: exactly(1), RunE: func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return usagef("%q is no number of a subscription; see `gatewayd kanban notify list`", args[0])
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, _ house, b *kanban.Board) error {
			said, err := do(ctx, b, id)
			if err == nil {
				fmt.Fprintln(v.std.out, line(said))
			}
			return err
		})
	}}
}

func (v *boardVerbs) unsubscribeVerb(use string) *cobra.Command {
	return v.onSubscription(use, "End a subscription and forget what it has not delivered", func(ctx context.Context, b *kanban.Board, id int64) (string, error) {
		return fmt.Sprintf("subscription %d is ended", id), b.Unsubscribe(ctx, id)
	})
}

func (v *boardVerbs) retryVerb() *cobra.Command {
	return v.onSubscription("retry SUBSCRIPTION", "Deliver again what is parked or waits", func(ctx context.Context, b *kanban.Board, id int64) (string, error) {
		rows, err := b.Retry(ctx, id)
		return fmt.Sprintf("subscription %d: %d to deliver", id, rows), err
	})
}

// tryVerb asks the daemon, whose network and programs they are.
func (v *boardVerbs) tryVerb() *cobra.Command {
	return v.onSubscription("test SUBSCRIPTION", "Send a test by the running daemon, at once", func(ctx context.Context, b *kanban.Board, id int64) (string, error) {
		cl, err := v.dial()
		if err != nil {
			return "", err
		}
		path := fmt.Sprintf("/api/boards/%s/subscriptions/%d/test", b.Slug(), id)
		return "delivered", cl.call(ctx, http.MethodPost, path, nil, nil)
	})
}

func printNotifier(w io.Writer, s notify.Status) {
	for _, b := range s.Boards {
		text := fmt.Sprintf("notifications of board %s: %d subscriptions, %d pending, %d parked", b.Board, b.Subscriptions, b.Pending, b.Parked)
		if b.Parked > 0 {
			text += "; see `gatewayd kanban notify list`"
		}
		if b.Trouble != "" {
			text += ": " + line(b.Trouble)
		}
		fmt.Fprintln(w, strings.TrimSpace(text))
	}
}
