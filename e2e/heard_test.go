package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// heard is what a client was shown of one turn over the API, in the order in which it came.
type heard struct {
	parts   []part
	text    string // the words of the answer
	why     string // the explanation, where there is no whole answer
	finish  string
	receipt receipt
	status  int
	took    time.Duration
	err     error // of the connection
}

// part is one thing that was shown.
type part struct {
	kind string // text, tool, note, why, finish, done
	text string
	at   time.Duration // since the message was sent
}

// receipt is what the last event says of the turn.
type receipt struct {
	Session     string
	TurnID      string `json:"turn_id"`
	Completed   bool
	Failed      bool
	Interrupted bool
	ExitReason  string `json:"exit_reason"`
	Error       string
}

// words are everything that a person could read.
func (h heard) words() string { return strings.TrimSpace(h.text + "\n" + h.why) }

// place is where the first part of a kind came, -1 when there was none.
func (h heard) place(kind string) int {
	return slices.IndexFunc(h.parts, func(p part) bool { return p.kind == kind })
}

// hear sends a message and listens to the stream until its end. each, when given, is told of every part as it comes.
func (d *daemon) hear(ctx context.Context, session, text string, each ...func(part)) (h heard) {
	began := time.Now()
	note := func(kind, text string) {
		p := part{kind, text, time.Since(began)}
		h.parts = append(h.parts, p)
		for _, f := range each {
			f(p)
		}
	}
	defer func() { h.took = time.Since(began) }()
	resp, err := d.ask(ctx, session, text)
	if err != nil {
		h.err = err
		return h
	}
	defer resp.Body.Close()
	if h.status = resp.StatusCode; h.status != http.StatusOK {
		h.refused(resp.Body, note)
		return h
	}
	h.err = events(resp.Body, func(name string, data []byte) {
		if name == "comment" {
			note("note", string(data))
		} else {
			h.take(data, note)
		}
	})
	return h
}

func (d *daemon) ask(ctx context.Context, session, text string) (*http.Response, error) {
	raw, err := json.Marshal(map[string]any{
		"model": "gatewayd", "stream": true, "messages": []map[string]string{{"role": "user", "content": text}},
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Gatewayd-Session-Id", session)
	return http.DefaultClient.Do(req)
}

type failure struct{ Message string }

// refused takes the answer of an error status: the explanation is all there is.
func (h *heard) refused(body io.Reader, note func(kind, text string)) {
	var envelope struct{ Error failure }
	if h.err = json.NewDecoder(body).Decode(&envelope); h.err == nil {
		h.why = envelope.Error.Message
		note("why", h.why)
		note("done", "")
	}
}

// take reads one event of a stream.
func (h *heard) take(data []byte, note func(kind, text string)) {
	if string(data) == "[DONE]" {
		note("done", "")
		return
	}
	var c struct {
		Choices []struct {
			Delta        struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Error    *failure
		Gatewayd *receipt
		Tool     string
		Status   string
	}
	if err := json.Unmarshal(data, &c); err != nil {
		note("why", "no JSON: "+string(data))
		return
	}
	if c.Tool != "" {
		note("tool", c.Tool+" "+c.Status)
		return
	}
	if c.Gatewayd != nil {
		h.receipt = *c.Gatewayd
		h.why = c.Gatewayd.Error
	}
	if c.Error != nil {
		h.why = c.Error.Message
	}
	if len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
		h.text += c.Choices[0].Delta.Content
		note("text", c.Choices[0].Delta.Content)
	}
	if h.why != "" && h.place("why") < 0 {
		note("why", h.why)
	}
	if len(c.Choices) > 0 && c.Choices[0].FinishReason != "" {
		h.finish = c.Choices[0].FinishReason
		note("finish", h.finish)
	}
}

// events reads server-sent events until [DONE]; comments have the name "comment". A stream that ends before is an error.
func events(body io.Reader, take func(name string, data []byte)) error {
	name := ""
	for r := bufio.NewReader(body); ; {
		line, err := r.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if text, ok := strings.CutPrefix(line, ":"); ok {
			take("comment", []byte(strings.TrimSpace(text)))
		} else if text, ok := strings.CutPrefix(line, "event:"); ok {
			name = strings.TrimSpace(text)
		} else if text, ok := strings.CutPrefix(line, "data:"); ok {
			text = strings.TrimSpace(text)
			take(name, []byte(text))
			if text == "[DONE]" {
				return nil
			}
		} else if line == "" {
			name = ""
		}
		if err != nil {
			return err
		}
	}
}
