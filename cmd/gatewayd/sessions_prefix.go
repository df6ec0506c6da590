package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// sessionsPrefixVerb says what the next request of a conversation would share with its last one.
func (c *cli) sessionsPrefixVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "prefix SESSION", Short: "Say how much of the last request the next one repeats", Args: exactly(1),
		Long: "Say how much of a conversation's last request the next one would repeat byte for byte.\n\nA provider keeps what it has computed for a beginning that two requests share. " +
			"Where the next request differs, this names the first place and who changed it. The tools are taken to be the same.",
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			return c.onStore(cmd.Context(), func(ctx context.Context, s *sessiondb.Store) error {
				p, err := prefixOf(ctx, s, args[0], cmp.Or(loaded.Agent.SystemPrompt, gateway.DefaultSystemPrompt))
				if err != nil {
					return err
				}
				return c.emit(p, func(w io.Writer) { printPrefix(w, p) })
			})
		},
	})
}

// prefixView is what the verb prints.
type prefixView struct {
	Session string           `json:"session"`
	Last    *sessiondb.Asked `json:"last,omitempty"`
	Next    *gateway.Prefix  `json:"next,omitempty"`
}

func prefixOf(ctx context.Context, s *sessiondb.Store, id, system string) (out prefixView, err error) {
	session, err := s.Session(ctx, id)
	if err != nil {
		return out, err
	}
	out.Session = session.ID
	last, found, err := s.LastRequest(ctx, session.ID)
	if err != nil || !found {
		return out, err
	}
	rows, err := s.Transcript(ctx, session.ID)
	if err != nil {
		return out, err
	}
	if stored, err := s.Prompt(ctx, session.PromptHash); err != nil {
		return out, err
	} else if stored != "" {
		system = stored
	}
	out.Last = &last
	if p, known := gateway.NextPrefix(last, system, rows); known {
		out.Next = &p
	}
	return out, nil
}

func printPrefix(w io.Writer, p prefixView) {
	if p.Last == nil {
		fmt.Fprintln(w, "no request of this conversation is on record")
		return
	}
	fmt.Fprintf(w, "last request: %s, %s, %d tokens and %d of the answer, up to row %d\n", when(p.Last.At), line(p.Last.Model), p.Last.Prompt, p.Last.Completion, p.Last.Row)
	switch {
	case p.Next == nil:
		fmt.Fprintln(w, "its bytes are not on record")
	case !p.Next.Broken:
		fmt.Fprintf(w, "the next one begins with all of its %d bytes\n", p.Next.Bytes)
	default:
		fmt.Fprintf(w, "the next one repeats %d of %d bytes: %s differs (row %d); cause: %s\n", p.Next.Equal, p.Next.Bytes, p.Next.Part, p.Next.Row, p.Next.Cause)
	}
}
