package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// offerTime is how long a shell is kept waiting for what could come next. A person who types does not notice it; whoever is slower has
// nothing to offer.
const offerTime = 300 * time.Millisecond

// offer lists what a word can be, each with a tab and what it is behind it. It says nothing of what fails: it is asked in the middle of
// somebody's line.
type offer func(ctx context.Context, cmd *cobra.Command) []string

// offers has every verb complete what its usage calls a card, a board, a lane or a conversation, and every flag that names one.
func (c *cli) offers(cmd *cobra.Command) {
	words := map[string]offer{"CARD": c.cards, "PARENT": c.cards, "CHILD": c.cards, "SLUG": c.boards, "LANE": c.lanes, "SESSION": c.conversations}
	usage := strings.Fields(cmd.Use)[1:]
	if cmd.Name() == "create" { // what it names is not there yet
		usage = nil
	}
	for _, word := range usage {
		if words[noun(word)] != nil {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
				word := nounAt(usage, len(args))
				return offered(cmd, words[word], word == "FILE" || word == "DIR", begin)
			}
			break
		}
	}
	for name, list := range map[string]offer{"board": c.boards, "assignee": c.lanes, "parent": c.cards, "session": c.conversations} {
		if f := cmd.Flag(name); f != nil && f.Value.Type() != "bool" && !mutation.On("flags-are-not-completed") {
			_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
				return offered(cmd, list, false, begin)
			}) // refused where a verb above has done so: the flag is the same
		}
	}
	for _, sub := range cmd.Commands() {
		c.offers(sub)
	}
}

// noun is a word of a usage without the signs of what may be left out or repeated.
func noun(word string) string { return strings.Trim(word, "[].") }

// nounAt is what the usage calls the word after n others; the last one may be one that repeats.
func nounAt(usage []string, n int) string {
	switch last := len(usage) - 1; {
	case n <= last:
		return noun(usage[n])
	case strings.Contains(usage[last], "..."):
		return noun(usage[last])
	}
	return ""
}

// offered gives what of a list goes on with a beginning, in offerTime or not at all.
func offered(cmd *cobra.Command, list offer, files bool, begin string) ([]string, cobra.ShellCompDirective) {
	if files {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if list == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), offerTime)
	defer cancel()
	found := make(chan []string, 1)
	go func() { found <- list(ctx, cmd) }() // a file system that hangs heeds no context
	var out []string
	select {
	case all := <-found:
		for _, one := range all {
			if strings.HasPrefix(one, begin) {
				out = append(out, one)
			}
		}
	case <-ctx.Done():
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// verbsOf are the board verbs under the --board of a command.
func (c *cli) verbsOf(cmd *cobra.Command) *boardVerbs {
	v := &boardVerbs{cli: c}
	if f := cmd.Flag("board"); f != nil {
		v.slug = f.Value.String()
	}
	return v
}

// boards are read from their directory: no board is opened.
func (c *cli) boards(_ context.Context, cmd *cobra.Command) (out []string) {
	h, err := c.verbsOf(cmd).openRoot()
	if err != nil {
		return nil
	}
	all, _ := h.root.Boards()
	for _, b := range all {
		out = append(out, string(b.Slug)+"\t"+short(b.Name))
	}
	return out
}

func (c *cli) lanes(context.Context, *cobra.Command) (out []string) {
	loaded, err := c.load()
	if err != nil {
		return nil
	}
	lanes, err := worker.NewLanes(loaded.Kanban, loaded.KeyVariables()...)
	if err != nil {
		return nil
	}
	return lanes.Names()
}

// cards are those of the board that the command would act on, as the daemon has them.
func (c *cli) cards(ctx context.Context, cmd *cobra.Command) (out []string) {
	v := c.verbsOf(cmd)
	h, err := v.openRoot()
	if err != nil {
		return nil
	}
	slug, err := v.board(h)
	if err != nil {
		return nil
	}
	cl, err := c.dial()
	if err != nil {
		return nil
	}
	var answer struct{ Tasks []kanban.Task }
	_ = cl.call(ctx, http.MethodGet, fmt.Sprintf("/api/boards/%s/tasks?limit=%s", slug, mostOffered), nil, &answer)
	for _, t := range answer.Tasks {
		out = append(out, line(t.ID)+"\t"+string(t.Status)+" "+short(t.Title))
	}
	return out
}

func (c *cli) conversations(ctx context.Context, _ *cobra.Command) (out []string) {
	for _, s := range newest(ctx, c.dial) {
		out = append(out, line(s.ID)+"\t"+short(label(s)))
	}
	return out
}
