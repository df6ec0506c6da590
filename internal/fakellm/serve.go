package fakellm

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// controlPath is where other processes reach the script and the record: POST to script, GET requests.
const controlPath = "/_fake/"

// Serve runs a server for other processes until ctx ends: the role of a test binary. Arguments: -addr HOST:PORT (127.0.0.1:8765), -script FILE
// and -key WORD. Its base URL is written to out as one line once it answers. POST /_fake/script adds responses, GET /_fake/requests gives the record.
func Serve(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fakellm", flag.ContinueOnError)
	flags.SetOutput(out)
	addr := flags.String("addr", "127.0.0.1:8765", "where to listen")
	file := flags.String("script", "", "a file of responses, as ParseScript reads it")
	key := flags.String("key", "", "the only key that is accepted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := Options{Addr: *addr, Control: true}
	if *key != "" {
		opts.Keys = []string{*key}
	}
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if opts.Script, err = ParseScript(text); err != nil {
			return err
		}
	}
	s := Start(opts)
	defer s.Close()
	fmt.Fprintln(out, s.URL())
	<-ctx.Done()
	return nil
}

// scripted is one response as a file or another process writes it; exactly one field is set.
type scripted struct {
	Text     *Text          `json:"text"`
	ToolCall *ToolCall      `json:"tool_call"`
	Error    *Error         `json:"error"`
	Hang     *scriptedHang  `json:"hang"`
	Drop     *DropMidStream `json:"drop_mid_stream"`
	Stall    *scriptedStall `json:"stall_mid_stream"`
	Raw      *Raw           `json:"raw"`
	DelayMS  int64          `json:"delay_ms"` // before each chunk of a text or a call
	Times    int            `json:"times"`    // so often; 0 is once
}

type scriptedHang struct{ Seconds float64 }

type scriptedStall struct {
	Text, Reasoning string
	After           int
}

// ParseScript reads a list of responses in JSON: [{"text":{"Text":"hi"},"delay_ms":250}, {"error":{"Status":429,"RetryAfter":"1"},"times":3},
// {"hang":{"Seconds":5}}, …], with the field names of the Go types.
func ParseScript(text []byte) ([]Response, error) {
	var list []scripted
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	var script []Response
	for i, one := range list {
		response := one.response()
		if response == nil {
			return nil, fmt.Errorf("read script: response %d is of no known kind", i)
		}
		for range max(one.Times, 1) {
			script = append(script, response)
		}
	}
	return script, nil
}

func (s scripted) response() Response {
	delay := time.Duration(s.DelayMS) * time.Millisecond
	switch {
	case s.Text != nil:
		s.Text.Delay = delay
		return *s.Text
	case s.ToolCall != nil:
		s.ToolCall.Delay = delay
		return *s.ToolCall
	case s.Error != nil:
		return *s.Error
	case s.Hang != nil:
		return Hang{For: time.Duration(s.Hang.Seconds * float64(time.Second))}
	case s.Drop != nil:
		return *s.Drop
	case s.Stall != nil:
		return StallMidStream{Text: s.Stall.Text, Reasoning: s.Stall.Reasoning, After: s.Stall.After}
	case s.Raw != nil:
		return *s.Raw
	}
	return nil
}

// control is what another process may do.
func (s *Server) control(w http.ResponseWriter, r *http.Request, body []byte) {
	switch r.Method + " " + r.URL.Path {
	case "POST " + controlPath + "script":
		script, err := ParseScript(body)
		if err != nil {
			writeJSON(w, 400, envelope(err.Error(), "script"))
			return
		}
		s.Push(script...)
		writeJSON(w, 200, map[string]any{"left": s.Left()})
	case "GET " + controlPath + "requests":
		list := []any{}
		for _, q := range s.Requests() {
			list = append(list, map[string]any{
				"n": q.N, "path": q.Path, "kind": q.Kind, "key": q.Key, "body": string(q.Body), "at": q.At, "answer": q.Answered.Kind(), "chunks": q.Answered.Chunks(), "usage": q.Answered.Usage(),
			})
		}
		writeJSON(w, 200, map[string]any{"requests": list, "faults": s.Faults()})
	default:
		writeJSON(w, 404, envelope("no such address: "+r.URL.Path, "not_found"))
	}
}
