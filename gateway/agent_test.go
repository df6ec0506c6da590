package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/kanban"
	boardtools "gatewayd/kanban/worker/tools"
)

// desk is a board that takes everything.
type desk struct{ said []string }

func (d *desk) Tools() []boardtools.Tool {
	return (&boardtools.Desk{Worker: &kanban.Fence{Task: "t_1", Run: 7}}).Tools()
}

func (d *desk) Call(_ context.Context, name string, args json.RawMessage) boardtools.Answer {
	var said struct{ Body, Summary, Reason string }
	if err := json.Unmarshal(args, &said); err != nil {
		return boardtools.Answer{Err: err}
	}
	d.said = append(d.said, strings.TrimPrefix(name, "kanban_")+" "+said.Body+said.Summary+said.Reason)
	return boardtools.Answer{Body: map[string]any{"ok": true}, Ended: name != "kanban_comment"}
}

func TestAWorkersExitCodeTellsWhoIsToBlame(t *testing.T) {
	complete := fakellm.ToolCall{Name: "kanban_complete", Args: map[string]any{"summary": "made it"}}
	for name, c := range map[string]struct {
		script []fakellm.Response
		code   int
		board  string
		log    string
		why    string // nothing where the card was ended
	}{
		"done": {
			[]fakellm.Response{fakellm.ToolCall{Name: "kanban_comment", Args: map[string]any{"body": "hm"}}, complete, fakellm.Text{Text: "ended"}},
			ExitDone, "comment hm; complete made it", "> kanban_complete", "",
		},
		"blocked": {
			[]fakellm.Response{fakellm.ToolCall{Name: "kanban_block", Args: map[string]any{"reason": "no key"}}, fakellm.Text{Text: "x"}},
			ExitDone, "block no key", "no key", "",
		},
		"reminded":     {[]fakellm.Response{fakellm.Text{Text: "I am done"}, complete, fakellm.Text{Text: "x"}}, ExitDone, "complete made it", "I am done", ""},
		"forgotten":    {[]fakellm.Response{fakellm.Text{Text: "a"}, fakellm.Text{Text: "b"}}, ExitDone, "", "b", `without a call of kanban_complete or kanban_block; many small models cannot call tools. It said: "b" (text_response, session `},
		"rate limited": {[]fakellm.Response{fakellm.Error{Status: 429, Message: "slow down"}}, ExitRateLimited, "", "slow down", "could not answer: slow down"},
		"no right":     {[]fakellm.Response{fakellm.Error{Status: 401}}, ExitUnusable, "", "could not answer", "check the API key"},
		"used up": {
			[]fakellm.Response{
				fakellm.ToolCall{Name: "kanban_comment", Args: map[string]any{"body": "1"}},
				fakellm.ToolCall{Name: "kanban_comment", Args: map[string]any{"body": "2"}},
				fakellm.Text{},
				fakellm.Text{Text: "half done"},
			},
			ExitTimedOut, "comment 1; comment 2", "half done", "all steps of its turn were used up; raise agent.max_iterations, or ask for less in one card (max_iterations_reached(2/2)",
		},
		"refused":                         {[]fakellm.Response{fakellm.Error{Status: 400, Message: "bad"}}, ExitFailed, "", "bad", "could not answer: bad; "},
		"done before the provider failed": {[]fakellm.Response{complete, fakellm.Error{Status: 400, Message: "bad"}}, ExitDone, "complete made it", "bad", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			list, ended := tool.BoardTools(d)
			h := newHouse(t, func(o *Options) {
				o.Tools = tools(list...)
				if name == "used up" {
					o.MaxIterations = 2
				}
			}, c.script...)
			var log strings.Builder
			code, why := h.Work(soon(t), Card{Board: "default", Task: "t_1", Run: 7, Text: "do it", Dir: t.TempDir(), Ended: ended}, &log)
			if got := strings.Join(d.said, "; "); code != c.code || got != c.board || !strings.Contains(log.String(), c.log) {
				t.Errorf("code %d, want %d; board heard %q; log:\n%s", code, c.code, got, log.String())
			}
			if !strings.Contains(why, c.why) || c.board == "" && why == "" || c.why == "" && c.board != "" && why != "" {
				t.Errorf("it says %q, which lacks %q", why, c.why)
			}
			session, err := h.store.SessionByKey(t.Context(), "card:default:t_1:7")
			if err != nil {
				t.Fatal(err)
			}
			assertWhole(t, h.rows(session.ID))
		})
	}
}

func TestAWorkerWithoutAModelSaysSo(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Model = provider.Offline() })
	var log strings.Builder
	if code, why := h.Work(soon(t), Card{Task: "t_1", Text: "do it"}, &log); code != ExitUnusable || !strings.Contains(why, "model.base_url") {
		t.Errorf("code %d: %s", code, why)
	}
}

func TestAWorkerKeepsItsClaimThroughALongSilence(t *testing.T) {
	beats := make(chan struct{}, 1_000)
	silent := fake{name: "work", run: func(ctx context.Context, _ tool.Call) tool.Result {
		for range 3 {
			select {
			case <-beats:
			case <-ctx.Done():
			}
		}
		return tool.Result{Content: "at last", Effect: tool.EffectDone}
	}}
	h := newHouse(t, with(silent), fakellm.ToolCall{Name: "work"}, fakellm.Text{Text: "a"}, fakellm.Text{Text: "b"})
	var log strings.Builder
	card := Card{Board: "default", Task: "t_1", Run: 7, Text: "do it", Beat: time.Millisecond, Active: func() {
		select {
		case beats <- struct{}{}:
		default:
		}
	}}
	if code, _ := h.Work(soon(t), card, &log); code != ExitDone || !strings.Contains(log.String(), "at last") {
		t.Errorf("code %d: %s", code, log.String())
	}
}
