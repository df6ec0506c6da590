package provider

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// A local server that says of its slots that it gets further with a prompt is waited for, however long that takes; one that is idle, stands
// still, has no slots, answers nonsense or not at all is given up when its time is over. Who has no slots is asked once.
func TestAServerThatIsBusyWithThePromptIsAlive(t *testing.T) {
	slot := func(fields string) fakellm.Response {
		return fakellm.Raw{ContentType: "application/json", Body: `[{"id":0,"is_processing":false},{"id":1,` + fields + `}]`}
	}
	const enough = 7 // looks: one for each quarter of the wait
	for name, c := range map[string]struct {
		slots func(n int) fakellm.Response
		mode  string
		lives bool
		looks func(n int) bool
	}{
		"busy, and gets further": {slots: func(n int) fakellm.Response {
			return slot(fmt.Sprintf(`"is_processing":true,"id_task":7,"n_prompt_tokens":9000,"n_prompt_tokens_processed":%d`, 512*n))
		}, lives: true},
		"busy with the answer of another call": {slots: func(n int) fakellm.Response {
			return slot(fmt.Sprintf(`"is_processing":true,"id_task":6,"n_past":10,"next_token":[{"n_decoded":%d}]`, n))
		}, lives: true},
		"busy, and tells no numbers": {slots: func(int) fakellm.Response { return slot(`"state":1`) }, lives: true},
		"busy, and stands still": {slots: func(int) fakellm.Response {
			return slot(`"is_processing":true,"id_task":7,"n_prompt_tokens_processed":512`)
		}},
		"idle":     {slots: func(int) fakellm.Response { return slot(`"is_processing":false,"n_past":3`) }},
		"no slots": {looks: func(n int) bool { return n == 1 }},
		"slots that are switched off": {slots: func(int) fakellm.Response {
			return fakellm.Error{Status: 501, Message: "This server does not support slots endpoint. Start it with `--slots`"}
		}, looks: func(n int) bool { return n == 1 }},
		"garbage": {slots: func(int) fakellm.Response { return fakellm.Raw{Body: `<html>[]`} }, looks: func(n int) bool { return n == 1 }},
		"silence": {slots: func(int) fakellm.Response { return fakellm.Hang{} }},
		"off by configuration": {slots: func(n int) fakellm.Response {
			return slot(fmt.Sprintf(`"is_processing":true,"n_past":%d`, n))
		}, mode: SlotsOff, looks: func(n int) bool { return n == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, once, looks := make(chan struct{}), sync.Once{}, atomic.Int64{}
			server := fakellm.Start(fakellm.Options{
				Script: []fakellm.Response{fakellm.Text{Text: "hello", Gate: gate}},
				Slots: func(n int) fakellm.Response {
					looks.Store(int64(n))
					if n >= enough {
						once.Do(func() { close(gate) })
					}
					if c.slots == nil {
						return nil
					}
					return c.slots(n)
				},
			})
			t.Cleanup(server.Close)
			first := 1200 * time.Millisecond
			client := newClient(Options{BaseURL: server.URL(), Name: fakellm.Model, FirstToken: first, Slots: c.mode, RequestTimeout: 30 * time.Second})
			t.Cleanup(client.http.Load().CloseIdleConnections)
			begun := time.Now()
			got, err := client.Complete(bounded(t), ask, nil)
			took := time.Since(begun)
			switch {
			case c.lives && (err != nil || got.Text != "hello" || took < first):
				t.Errorf("%+v, %v after %s and %d looks", got, err, took, looks.Load())
			case !c.lives && (err == nil || !strings.Contains(err.Error(), "no token within 1.2s")):
				t.Errorf("%+v, %v after %s", got, err, took)
			}
			if c.looks != nil && !c.looks(int(looks.Load())) {
				t.Errorf("%d looks", looks.Load())
			}
			if n := len(server.Requests()); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// A server that is busy for ever is given up when the time of the whole request is over.
func TestABusyServerIsNotWaitedForLongerThanTheRequestMayTake(t *testing.T) {
	t.Parallel()
	server := fakellm.Start(fakellm.Options{Script: []fakellm.Response{fakellm.Hang{}}, Slots: func(n int) fakellm.Response {
		return fakellm.Raw{Body: fmt.Sprintf(`[{"is_processing":true,"n_past":%d}]`, n)}
	}})
	t.Cleanup(server.Close)
	client := newClient(Options{BaseURL: server.URL(), Name: fakellm.Model, FirstToken: 600 * time.Millisecond, RequestTimeout: 1500 * time.Millisecond})
	t.Cleanup(client.http.Load().CloseIdleConnections)
	if _, err := client.Complete(bounded(t), ask, nil); err == nil || !strings.Contains(err.Error(), "not complete after 1.5s") {
		t.Error(err)
	}
}

// The slots are asked of the configured host and of nobody else: a redirect is not followed, and a server elsewhere is asked when the settings say so.
func TestSlotsAreAskedOfTheConfiguredHostAlone(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	t.Cleanup(stranger.Close)
	server := fakellm.Start(fakellm.Options{Script: []fakellm.Response{fakellm.Hang{}}, Slots: func(int) fakellm.Response {
		return fakellm.Raw{Status: http.StatusFound, Header: map[string]string{"Location": stranger.URL + "/slots"}}
	}})
	t.Cleanup(server.Close)
	client := newClient(Options{BaseURL: server.URL(), Name: fakellm.Model, FirstToken: 400 * time.Millisecond})
	t.Cleanup(client.http.Load().CloseIdleConnections)
	if _, err := client.Complete(bounded(t), ask, nil); err == nil || strangers.Load() != 0 || !client.slotless.Load() {
		t.Errorf("%v; the stranger was asked %d times", err, strangers.Load())
	}
	for base, want := range map[string]map[string]bool{
		"https://api.example/v1":     {"": false, SlotsAuto: false, SlotsOn: true, SlotsOff: false},
		"http://192.168.1.7:8080/v1": {"": true, SlotsAuto: true, SlotsOn: true, SlotsOff: false},
		"http://127.0.0.1:8080/v1":   {"": true, SlotsOff: false},
	} {
		for mode, asks := range want {
			if got := newClient(Options{BaseURL: base, Slots: mode}).asksSlots(); got != asks {
				t.Errorf("%s with %q: %t", base, mode, got)
			}
		}
	}
}
