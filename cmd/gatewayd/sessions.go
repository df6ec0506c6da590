package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/gateway/compact"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func (c *cli) sessionsVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Short: "List, show, search, change, move and audit conversations", Args: verbs, RunE: help}
	cmd.AddCommand(c.sessionsListVerb(), c.sessionsShowVerb(), c.sessionsSearchVerb(), c.sessionsPrefixVerb(), c.sessionsSalvageVerb())
	cmd.AddCommand(c.sessionChanges()...)
	cmd.AddCommand(c.sessionStates()...)
	cmd.AddCommand(c.sessionMoves()...)
	return cmd
}

// onStore opens state.db for one call. A home without one has no conversations, and reading makes none.
func (c *cli) onStore(ctx context.Context, do func(context.Context, *sessiondb.Store) error) (err error) {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	options := storeOptions(loaded.Config, c.warnings(loaded))
	options.Existing = true
	s, err := sessiondb.Open(ctx, options)
	if problem.Is(err, problem.NotFound) {
		return &problem.Error{Kind: problem.NotFound, Thing: "home " + loaded.Home, What: "has no conversations yet", Remedy: "start one: gatewayd chat hello"}
	}
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	return do(ctx, s)
}

func (c *cli) sessionsListVerb() *cobra.Command {
	var f sessiondb.ListFilter
	cmd := c.readVerb(&cobra.Command{
		Use: "list", Short: "List conversations, newest first", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				sessions, err := s.Sessions(ctx, f)
				if err != nil {
					return err
				}
				return c.emit(map[string]any{"sessions": append([]sessiondb.Session{}, sessions...)}, func(w io.Writer) {
					table(w, func(row func(...any)) {
						row("SESSION", "LAST ACTIVE", "ROWS", "SOURCE", "STATE", "TITLE")
						for _, s := range sessions {
							row(s.ID, when(s.LastActive), s.MessageCount, s.Source, stateOf(s), label(s))
						}
					})
				})
			})
		},
	})
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most")
	cmd.Flags().BoolVar(&f.IncludeArchived, "archived", false, "also those that were put away")
	cmd.Flags().BoolVar(&f.IncludeChildren, "children", false, "also those that a compaction continued in another one")
	return cmd
}

// stateOf is what sets a conversation apart from one that is open.
func stateOf(s sessiondb.Session) string {
	var words []string
	for word, is := range map[string]bool{"archived": s.Archived, "pinned": s.Pinned, "ended": s.EndedAt != nil} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (c *cli) sessionsShowVerb() *cobra.Command {
	var compacted bool
	cmd := c.readVerb(&cobra.Command{
		Use: "show SESSION", Short: "Print a conversation", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				session, err := s.Session(ctx, args[0])
				if err != nil {
					return err
				}
				rows, err := s.Messages(ctx, session.ID, sessiondb.MessageFilter{IncludeCompacted: compacted})
				if err != nil {
					return err
				}
				return c.emit(map[string]any{"session": session, "messages": rows}, func(w io.Writer) { printTranscript(w, rows) })
			})
		},
	})
	cmd.Flags().BoolVar(&compacted, "compacted", false, "also what compaction folded away")
	return cmd
}

func printTranscript(w io.Writer, rows []sessiondb.Message) {
	for _, m := range rows {
		who := m.Role
		if m.ToolName != "" {
			who += " " + line(m.ToolName)
		}
		fmt.Fprintf(w, "%s  %s\n", when(m.CreatedAt), who)
		text := m.Content
		if m.Kind == sessiondb.KindModelOnly { // nobody wrote it: what the model is sent in the place of folded rows
			text = compact.Sent(m)
		}
		if text != "" {
			fmt.Fprintln(w, indented(text, "    "))
		}
		if len(m.ToolCalls) > 0 {
			fmt.Fprintln(w, indented(string(m.ToolCalls), "    "))
		}
	}
}

func (c *cli) sessionsSearchVerb() *cobra.Command {
	var limit int
	cmd := c.readVerb(&cobra.Command{
		Use: "search WORDS...", Short: "Find what was said", Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				hits, err := s.Search(ctx, sessiondb.Query{Text: words(args, 0), Limit: limit})
				if err != nil {
					return err
				}
				c.none(len(hits), "nothing was said with these words")
				return c.emit(map[string]any{"hits": hits}, func(w io.Writer) {
					for _, h := range hits {
						fmt.Fprintf(w, "%s  %s  %s\n    %s\n", when(h.CreatedAt), line(h.SessionID), h.Role, line(strings.ReplaceAll(h.Snippet, "\n", " ")))
					}
				})
			})
		},
	})
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	return cmd
}

// label is what a list calls a conversation: its title, or how it began.
func label(s sessiondb.Session) string {
	if s.Title != "" {
		return s.Title
	}
	return s.Preview
}
