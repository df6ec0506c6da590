package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"gatewayd/internal/problem"
)

func (c *cli) chatVerb() *cobra.Command {
	var session string
	var lines bool
	cmd := c.readVerb(&cobra.Command{
		Use: "chat [TEXT]", Short: "Talk to the running daemon",
		Long: "With TEXT, or with text on a pipe, one message is sent and its answer printed. On a terminal without TEXT, lines are sent one\n" +
			"by one until end of input; a line that begins with / is a command, see /help. Ctrl-C stops the answer that is being given, a\n" +
			"second one leaves. What tools ask to do is asked here: y, session, always or n.\n\n" +
			"With --jsonl another program speaks: one JSON object per line, as docs/chat.md says.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines {
				return c.jsonl(cmd.Context(), session, args)
			}
			cl, err := c.dial()
			if err != nil {
				return err
			}
			t := &talk{client: cl, out: c.std.out, err: c.std.err, json: c.json, session: session}
			return t.run(cmd.Context(), c.std.in, args)
		},
	})
	cmd.Flags().StringVar(&session, "session", "", "conversation to go on with (default: a new one)")
	cmd.Flags().BoolVar(&lines, "jsonl", false, "speak JSON lines on standard input and output, for another program")
	return cmd
}

// newSessionID names a conversation that begins on a command line.
func newSessionID() string { return "cli-" + strings.ToLower(rand.Text()[:12]) }

// sessionPath is a conversation's place in the API.
func sessionPath(session, rest string) string {
	return "/api/sessions/" + url.PathEscape(session) + rest
}

// reopen lets a conversation that had ended go on, and says where. One that does not exist begins with its first message.
func (cl *client) reopen(ctx context.Context, session string) (string, error) {
	var there struct {
		Session struct {
			EndedAt *string `json:"ended_at"`
		}
	}
	err := cl.call(ctx, http.MethodGet, sessionPath(session, ""), nil, &there)
	switch {
	case problem.Is(err, problem.NotFound):
		return session, nil
	case err != nil:
		return "", err
	case there.Session.EndedAt == nil:
		return session, nil
	}
	reply, err := cl.command(ctx, session, "/resume "+session)
	return reply.Session, err
}

// commandReply is what a command answers.
type commandReply struct {
	Text     string          `json:"text"`
	Data     json.RawMessage `json:"data,omitempty"`
	Session  string          `json:"session"`
	Accepted json.RawMessage `json:"accepted,omitempty"`
}

// command runs a slash command beside whatever runs.
func (cl *client) command(ctx context.Context, session, line string) (reply commandReply, err error) {
	err = cl.call(ctx, http.MethodPost, sessionPath(session, "/commands"), map[string]string{"line": line, "source": "cli"}, &reply)
	return reply, err
}

// talk is one conversation with the daemon.
type talk struct {
	*client
	out, err io.Writer
	json     bool
	session  string

	lines      <-chan string    // what a person types; nil: nobody can be asked
	interrupts <-chan os.Signal // Ctrl-C
	waiting    []string         // typed while a turn ran
	asked      []approval       // what waits for a person
	said       string           // the last piece of the answer
	shown      bool             // there was a piece
}

// run says one message, or what is typed.
func (t *talk) run(ctx context.Context, in io.Reader, args []string) (err error) {
	if t.session == "" {
		t.session = newSessionID()
	} else if t.session, err = t.reopen(ctx, t.session); err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	t.interrupts = interrupts
	person := isTerminal(in)
	if person {
		t.lines = typed(in)
	}
	switch {
	case len(args) > 0:
		return t.say(ctx, words(args, 0))
	case person:
		return t.converse(ctx)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return t.say(ctx, string(text))
}

// typed gives the lines of a terminal until its end.
func typed(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				lines <- strings.TrimRight(line, "\r\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// converse sends each line that a person types. A refused message does not end the conversation.
func (t *talk) converse(ctx context.Context) error {
	fmt.Fprintf(t.err, "conversation %s; /help lists commands, Ctrl-D ends\n", t.session)
	for {
		text, more := t.next()
		if !more {
			fmt.Fprintln(t.err)
			return nil
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		err := t.say(ctx, text)
		switch {
		case err == errLeft: //nolint:errorlint // our own mark, never wrapped
			return nil
		case problem.Is(err, problem.NotRunning):
			return err
		case err != nil:
			fmt.Fprintf(t.err, "gatewayd: %s\n", textOf(err))
		}
	}
}

func textOf(err error) string { return text(message(err)) }

// next is what is said next: what was typed while the last turn ran, or a new line.
func (t *talk) next() (string, bool) {
	if len(t.waiting) > 0 {
		text := t.waiting[0]
		t.waiting = t.waiting[1:]
		return text, true
	}
	if t.lines == nil {
		return "", false
	}
	fmt.Fprint(t.err, "> ")
	select {
	case text, more := <-t.lines:
		return text, more
	case <-t.interrupts:
		return "", false
	}
}
