package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
)

func (c *cli) chatVerb() *cobra.Command {
	var session string
	cmd := &cobra.Command{
		Use: "chat [TEXT]", Short: "Talk to the running daemon",
		Long: "With TEXT, or with text on a pipe, one message is sent and its answer printed. On a terminal without TEXT,\nlines are sent one by one until end of input. Ctrl-C stops the answer that is being given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.dial()
			if err != nil {
				return err
			}
			if session == "" {
				session = "cli-" + strings.ToLower(rand.Text()[:12])
			}
			t := &talk{client: cl.with(sessionHeader, session), out: c.std.out, err: c.std.err, session: session}
			if len(args) > 0 {
				return t.say(cmd.Context(), words(args, 0))
			}
			if !isTerminal(c.std.in) {
				text, err := io.ReadAll(c.std.in)
				if err != nil {
					return err
				}
				return t.say(cmd.Context(), string(text))
			}
			return t.lines(cmd.Context(), c.std.in)
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "conversation to go on with (default: a new one)")
	return cmd
}

// talk is one conversation with the daemon.
type talk struct {
	*client
	out, err io.Writer
	session  string
}

// lines sends each line that a person types. A refused message does not end the conversation.
func (t *talk) lines(ctx context.Context, in io.Reader) error {
	fmt.Fprintf(t.err, "conversation %s; end with Ctrl-D\n", t.session)
	input := bufio.NewReader(in)
	for {
		fmt.Fprint(t.err, "> ")
		line, err := input.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			if serr := t.say(ctx, line); problem.Is(serr, problem.NotRunning) {
				return serr
			} else if serr != nil {
				fmt.Fprintf(t.err, "gatewayd: %s\n", text(message(serr)))
			}
		}
		if err != nil {
			fmt.Fprintln(t.err)
			return nil
		}
	}
}

// say sends one message and prints the answer as it comes. Ctrl-C closes the stream, which stops the turn.
func (t *talk) say(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return usagef("nothing to say: the text is empty")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	resp, err := t.send(ctx, http.MethodPost, "/v1/chat/completions", map[string]any{
		"model": "gatewayd", "stream": true, "messages": []map[string]string{{"role": "user", "content": strings.TrimSpace(text)}},
	})
	if err == nil {
		defer resp.Body.Close()
		err = t.print(resp.Body)
	}
	if ctx.Err() != nil {
		return &problem.Error{Kind: problem.Interrupted, Thing: "the answer", What: "was stopped", Fate: "what was said so far is stored in session " + t.session}
	}
	return err
}

// chunk is what is read of one event of the stream.
type chunk struct {
	Choices []struct {
		Delta        struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Error    *struct{ Message string }
	Gatewayd *struct { // how the turn ended, with the last chunk
		Failed bool
		Error  string
	}

	// of the named event gatewayd.tool.progress
	Tool, Label, Status string
}

// print shows the answer as it comes. A turn that failed is an error, however much of an answer there was.
func (t *talk) print(body io.Reader) error {
	said := ""
	defer func() {
		if said != "" && !strings.HasSuffix(said, "\n") {
			fmt.Fprintln(t.out)
		}
	}()
	for event, err := range events(body) {
		if err != nil {
			return &problem.Error{
				Kind: problem.Unavailable, Thing: "the answer", What: "broke off: the daemon has closed the connection",
				Fate: "what was said so far is stored in session " + t.session, Remedy: "see `gatewayd status`", Err: unsaid{err},
			}
		}
		var c chunk
		if json.Unmarshal(event, &c) != nil {
			continue
		}
		switch {
		case c.Error != nil:
			return &problem.Error{Kind: problem.Unavailable, What: c.Error.Message}
		case c.Tool != "":
			fmt.Fprintf(t.err, "[%s %s] %s\n", line(c.Tool), line(c.Status), line(c.Label))
		case len(c.Choices) > 0 && c.Choices[0].Delta.Content != "":
			said = c.Choices[0].Delta.Content
			fmt.Fprint(t.out, onTerminal(t.out, said))
		}
		if c.Gatewayd != nil && c.Gatewayd.Failed {
			return &problem.Error{Kind: problem.Unavailable, What: c.Gatewayd.Error}
		}
	}
	return nil
}

// events gives the data of each server-sent event until [DONE]. Lines may be of any length.
func events(body io.Reader) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for r := bufio.NewReader(body); ; {
			line, err := r.ReadString('\n')
			data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:")
			if ok && strings.TrimSpace(data) == "[DONE]" {
				return
			}
			if ok && !yield([]byte(data), nil) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
