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
	var how chatFlags
	cmd := c.readVerb(&cobra.Command{
		Use: "chat [TEXT | -]", Short: "Talk to the running daemon",
		Long: "On a terminal without TEXT this is a conversation: what you type is answered while you type on. Enter says it, Alt-Enter begins a\n" +
			"new line, Tab completes commands (see /help), Up and Ctrl-R find what you said before; a line that begins with a space is\n" +
			"not kept. Ctrl-C stops the answer, a second one leaves, and so does Ctrl-D in an empty line.\n\n" +
			"With TEXT, or with text on a pipe, one message is said and its answer printed. TEXT comes first and what is piped after it:\n" +
			"`gatewayd chat \"what is wrong here?\" < build.log`. A - stands for standard input.\n\n" +
			"With --jsonl another program speaks: one JSON object per line, as docs/chat.md says.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if how.lines && len(how.images) > 0 {
				return usagef("--image and --jsonl exclude each other")
			}
			if how.lines {
				return c.jsonl(cmd.Context(), how.session, args)
			}
			return c.chat(cmd.Context(), how, args)
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&how.session, "session", "", "conversation to go on with, by its id or title (default: a new one)")
	flags.StringArrayVar(&how.images, "image", nil, "picture `FILE` (PNG, JPEG, GIF or WebP) to show beside TEXT; may be given several times")
	flags.BoolVar(&how.begin, "new", false, "begin a new conversation; with --session, under that name, and only if there is none")
	flags.BoolVar(&how.whole, "no-stream", false, "print answers in one piece, when they are complete")
	flags.BoolVar(&how.reasoning, "reasoning", false, "show the model's reasoning, on a terminal")
	flags.BoolVar(&how.lines, "jsonl", false, "speak JSON lines on standard input and output, for another program")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// chatFlags are how a person wants to talk.
type chatFlags struct {
	taste
	session      string
	images       []string
	begin, lines bool
}

// chat says one message, or has a conversation.
func (c *cli) chat(ctx context.Context, how chatFlags, args []string) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	in, person := terminalOf(c.std.in)
	person = person && isTerminal(c.std.in) && len(args) == 0
	if person && len(how.images) > 0 {
		return usagef("--image goes with TEXT: what is to be said of it?")
	}
	shown, err := picturesOf(how.images)
	if err != nil {
		return err
	}
	text := ""
	if !person {
		if text, err = c.toSay(args); err != nil {
			return err
		}
	}
	session, begun, err := cl.conversation(ctx, how)
	if err != nil {
		return err
	}
	if out, drawn := terminalOf(c.std.out); person && drawn && c.drawable() {
		return c.onDesk(ctx, in, out, session, begun, how.taste)
	}
	t := &talk{client: cl, out: c.std.out, prose: wrapOn(c.std.out), err: c.std.err, json: c.json, whole: how.whole, session: session, images: shown}
	return t.run(ctx, c.std.in, text, person)
}

// drawable reports that the output is a terminal on which rows can be painted anew.
func (c *cli) drawable() bool {
	loaded, err := c.load()
	return err == nil && !c.json && isTerminal(c.std.out) && !dumb(loaded.Environ)
}

// conversation is the one to go on with, or the name of a new one; begun reports that something was said in it.
func (cl *client) conversation(ctx context.Context, how chatFlags) (session string, begun bool, err error) {
	if how.session == "" {
		err = cl.call(ctx, http.MethodGet, "/api/status", nil, nil) // a daemon that is not there is said before anything is typed
		return newSessionID(), false, err
	}
	session, begun, err = cl.find(ctx, how.session)
	switch {
	case err != nil || !begun:
		return session, false, err
	case how.begin:
		return "", false, &problem.Error{
			Kind: problem.Conflict, Thing: "session " + how.session, What: "exists already", Fate: "nothing was said", Remedy: "go on with it without --new, or choose another name",
		}
	}
	session, err = cl.reopen(ctx, session)
	return session, true, err
}

// find gives the conversation of an id or a title.
func (cl *client) find(ctx context.Context, name string) (session string, there bool, err error) {
	err = cl.call(ctx, http.MethodGet, sessionPath(name, ""), nil, nil)
	if err == nil {
		return name, true, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return "", false, err
	}
	for _, s := range newest(ctx, func() (*client, error) { return cl, nil }) {
		if s.Title == name {
			return s.ID, true, nil
		}
	}
	return name, false, nil
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
	prose    *wrapped // the answer, on out
	json     bool
	whole    bool // the answer in one piece
	session  string
	images   []string // shown beside what is said, as URLs

	person     bool             // a conversation, not one message
	lines      <-chan string    // what a person types; nil: nobody can be asked
	interrupts <-chan os.Signal // Ctrl-C
	waiting    []string         // typed while a turn ran
	asked      []approval       // what waits for a person
	said       string           // the last piece of the answer
	shown      bool             // there was a piece
}

// run says one message, or, of a person, what is typed.
func (t *talk) run(ctx context.Context, in io.Reader, text string, person bool) error {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	t.interrupts = interrupts
	if isTerminal(in) {
		t.lines = typed(in)
	}
	if t.person = person; person {
		return t.converse(ctx)
	}
	return t.say(ctx, text)
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
