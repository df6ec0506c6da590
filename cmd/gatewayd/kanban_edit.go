package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/gateway/api"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

func (v *boardVerbs) editVerb() *cobra.Command {
	var title, body, tenant, result, summary, metadata string
	var priority, maxRetries int64
	var maxRuntime time.Duration
	var skills []string
	cmd := v.readVerb(&cobra.Command{Use: "edit CARD", Short: "Change what a card says", Args: exactly(1)})
	f := cmd.Flags()
	given := func(name string, s *string) *string { return ifChanged(cmd, name, s) }
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if body == "-" {
			if body, err = readText(v.std.in, "the body"); err != nil {
				return err
			}
		}
		seconds := int64(maxRuntime / time.Second)
		e := kanban.Edit{
			Title: given("title", &title), Body: given("body", &body), Tenant: given("tenant", &tenant), Result: given("result", &result),
			Summary: given("summary", &summary), Priority: ifChanged(cmd, "priority", &priority), Skills: ifChanged(cmd, "skill", &skills),
			MaxRuntimeSeconds: ifChanged(cmd, "max-runtime", &seconds), MaxRetries: ifChanged(cmd, "max-retries", &maxRetries),
		}
		if e.Metadata, err = object("metadata", metadata); err != nil {
			return err
		}
		return v.perform(cmd, args, "", func(ctx context.Context, o order, card string) (outcome, error) {
			return outcome{says: card + " is changed"}, o.Edit(ctx, card, e)
		})
	}
	f.StringVar(&title, "title", "", "its title")
	f.StringVar(&body, "body", "", "what is to be done; - reads it from stdin")
	f.StringVar(&tenant, "tenant", "", "namespace")
	f.Int64Var(&priority, "priority", 0, "higher goes first")
	span(f, &maxRuntime, "max-runtime", 0, "end an attempt after this long (0: no limit)")
	f.Int64Var(&maxRetries, "max-retries", 0, "failures in a row that block the card (0: the usual limit)")
	f.StringArrayVar(&skills, "skill", nil, "the skills that the worker needs (repeatable; replaces all)")
	f.StringVar(&result, "result", "", "result of a finished card")
	f.StringVar(&summary, "summary", "", "summary of a finished card")
	f.StringVar(&metadata, "metadata", "", "JSON object to keep with the run of a finished card")
	return cmd
}

// ifChanged is a flag's value where it was given: one that was not leaves the card alone.
func ifChanged[T any](cmd *cobra.Command, name string, value *T) *T {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	return value
}

func (v *boardVerbs) setModelVerb() *cobra.Command {
	var model, provider, reasoning string
	cmd := v.readVerb(&cobra.Command{Use: "set-model CARD [MODEL]", Short: "Choose the model of a card's workers (none clears it)", Args: between(1, 2)})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		choice := kanban.ModelChoice{
			Model: cleared(ifChanged(cmd, "model", &model)), Provider: cleared(ifChanged(cmd, "provider", &provider)), Reasoning: ifChanged(cmd, "reasoning", &reasoning),
		}
		if len(args) == 2 {
			choice.Model = cleared(&args[1])
		}
		if choice == (kanban.ModelChoice{}) {
			return usagef("nothing is chosen; name a MODEL, --provider or --reasoning")
		}
		return v.perform(cmd, args[:1], "", func(ctx context.Context, o order, card string) (outcome, error) {
			return outcome{says: card + " is changed, for its next attempt"}, o.SetModel(ctx, card, choice)
		})
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "the same as MODEL")
	f.StringVar(&provider, "provider", "", "provider of the model (none clears it)")
	f.StringVar(&reasoning, "reasoning", "", `how hard the model thinks; "" is the lane's own choice`)
	return cmd
}

// cleared takes "none" and "-" for a value that is to be cleared.
func cleared(value *string) *string {
	if value != nil && (*value == "none" || *value == "-") {
		return new("")
	}
	return value
}

func (v *boardVerbs) specifyVerb() *cobra.Command {
	var title, body, assignee, author string
	cmd := v.readVerb(&cobra.Command{Use: "specify CARD", Short: "Turn a rough idea into a card that can be worked on", Args: exactly(1)})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if body == "-" {
			if body, err = readText(v.std.in, "the body"); err != nil {
				return err
			}
		}
		return v.perform(cmd, args, "", func(ctx context.Context, o order, card string) (outcome, error) {
			spec := kanban.Specification{Title: ifChanged(cmd, "title", &title), Body: ifChanged(cmd, "body", &body), Assignee: ifChanged(cmd, "assignee", &assignee), Author: author}
			if spec.Author == "" {
				spec.Author = o.actor().Name
			}
			if err := o.Specify(ctx, card, spec); err != nil {
				return outcome{}, err
			}
			v.noteLane(o.house, assignee)
			return outcome{says: card + " is specified"}, nil
		})
	}
	f := cmd.Flags()
	f.StringVar(&title, "title", "", "its title")
	f.StringVar(&body, "body", "", "what is to be done; - reads it from stdin")
	f.StringVar(&assignee, "assignee", "", "the lane that does it")
	f.StringVar(&author, "author", "", "who specifies it (default: you)")
	return cmd
}

func (v *boardVerbs) decomposeVerb() *cobra.Command {
	var titles []string
	var file, lane string
	var split kanban.Decomposition
	cmd := v.deed("decompose CARD", "Split a rough idea into cards that it waits for", exactly(1), func(ctx context.Context, o order, card string) (_ outcome, err error) {
		if split.Children, err = v.children(titles, lane, file); err != nil {
			return outcome{}, err
		}
		if split.Author == "" {
			split.Author = o.actor().Name
		}
		made, err := o.Decompose(ctx, card, split)
		ids := make([]string, len(made))
		for i, child := range made {
			ids[i] = child.ID
		}
		return outcome{says: card + " waits for " + strings.Join(ids, ", "), beside: map[string]any{"children": made}}, err
	})
	f := cmd.Flags()
	f.StringArrayVar(&titles, "child", nil, "a card by its title (repeatable)")
	f.StringVar(&lane, "child-assignee", "", "the lane that does the cards of --child")
	f.StringVar(&file, "children", "", `file with a JSON list of cards, each as the API takes it; a parent may be "#1", the first of the list; - reads stdin`)
	f.StringVar(&split.RootAssignee, "assignee", "", "who puts the parts together (default: as it is)")
	f.StringVar(&split.Author, "author", "", "who splits it (default: you)")
	return cmd
}

// children are the cards of a decomposition, from the flags and from a file.
func (v *boardVerbs) children(titles []string, lane, file string) (cards []kanban.NewTask, err error) {
	for _, title := range titles {
		cards = append(cards, kanban.NewTask{Title: title, Assignee: lane})
	}
	if file == "" {
		return cards, nil
	}
	from := v.std.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &problem.Error{Kind: problem.NotFound, Thing: "--children " + file, What: "cannot be read", Fate: "nothing was changed", Err: err}
		}
		defer f.Close()
		from = f
	}
	raw, err := readText(from, "--children "+file)
	if err != nil {
		return nil, err
	}
	more, err := api.ParseCards([]byte(raw))
	if err != nil {
		return nil, usagef("--children %s: %w", file, err)
	}
	return append(cards, more...), nil
}
