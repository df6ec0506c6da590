package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"gatewayd/internal/mutation"
)

// When Options.Slots lets a server be asked for its slots.
const (
	SlotsAuto = "auto" // when it is on this machine or its own network
	SlotsOn   = "on"
	SlotsOff  = "off"
)

// How a server is asked, while the first token of an answer is awaited, whether it still works. An answer that comes within a quarter of the
// wait is never asked about. llama.cpp answers between two batches of a prompt, which take seconds on a small machine.
const (
	slotsEvery = 30 * time.Second // at most between two looks; a quarter of the wait where that is shorter
	slotsWait  = 5 * time.Second  // for one look
	slotsMost  = 4 << 20          // bytes; older servers put the whole prompts in
)

// slots is what llama.cpp tells of those that it works on.
type slots struct {
	busy    bool
	counted bool   // it says how far it is with their prompts
	mark    string // of how far it is; another one is progress
}

// works reports that a server which was so far the last time is alive. One that tells no numbers is by its answer alone: it gives it between
// two steps of its work. One that stands still at the same numbers is not.
func (s slots) works(before slots) bool {
	return s.busy && (!s.counted || s.mark != before.mark || mutation.On("standing-still-is-alive"))
}

// asksSlots says whether this is a server that may have slots: its own address, and nobody else's, is asked.
func (c *client) asksSlots() bool {
	if _, chat := c.dialect.(chatAPI); !chat || c.baseErr != nil || c.slotless.Load() {
		return false
	}
	return c.opts.Slots == SlotsOn || c.opts.Slots != SlotsOff && isLocal(c.base.Hostname())
}

// lookAtSlots looks at the server's slots until the first token is there or ctx ends, and starts the wait for it anew whenever the server got
// further. The request timeout bounds it all.
func (c *client) lookAtSlots(ctx context.Context, clock *clock, show *screen) {
	tick := time.NewTicker(max(min(slotsEvery, clock.first/4), time.Millisecond))
	defer tick.Stop()
	var before slots
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !clock.awaits(errFirstToken) {
			return
		}
		now, told, has := c.askSlots(ctx)
		if !has {
			c.slotless.Store(true)
			return
		}
		if told && now.works(before) && !mutation.On("busy-slots-are-not-asked") {
			clock.alive(show)
		}
		if told {
			before = now
		}
	}
}

// askSlots asks once. told is false where no answer came in time, and has where the answer was that there are no slots.
func (c *client) askSlots(ctx context.Context) (now slots, told, has bool) {
	ctx, cancel := context.WithTimeout(ctx, slotsWait)
	defer cancel()
	at := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: path.Join("/", strings.TrimSuffix(strings.TrimRight(c.base.Path, "/"), "/v1"), "slots")}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return now, false, false
	}
	c.mu.Lock()
	c.dialect.sign(request.Header, c.key)
	c.mu.Unlock()
	response, err := c.http.Load().Do(request)
	if err != nil {
		return now, false, true
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK { // a redirect, too, is not followed: the key is for this host
		return now, false, false
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, slotsMost))
	if err != nil {
		return now, false, true
	}
	now, has = readSlots(body)
	return now, has, has
}

// readSlots reads a list of slots of any version; false for anything else.
func readSlots(body []byte) (s slots, ok bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) != nil {
		return s, false
	}
	var mark strings.Builder
	for _, raw := range list {
		fields := looseObject(raw)
		working, known := slotWorks(fields)
		ok = ok || known
		if !working {
			continue
		}
		s.busy = true
		for _, name := range []string{"n_prompt_tokens_processed", "n_past"} {
			_, counts := looseInt(fields[name])
			s.counted = s.counted || counts
		}
		fmt.Fprintf(&mark, "%s %s %s %s;", fields["id_task"], fields["n_prompt_tokens_processed"], fields["n_past"], slotDecoded(fields))
	}
	s.mark = mark.String()
	return s, ok
}

// slotWorks reads whether a slot works; older servers write a state.
func slotWorks(fields map[string]json.RawMessage) (working, known bool) {
	if json.Unmarshal(fields["is_processing"], &working) == nil {
		return working, true
	}
	state, known := looseInt(fields["state"])
	return state > 0, known
}

// slotDecoded is how much of an answer stands in a slot: a call that waits behind another one's answer is not forgotten either.
func slotDecoded(fields map[string]json.RawMessage) json.RawMessage {
	for _, raw := range looseList(fields["next_token"]) {
		return looseObject(raw)["n_decoded"]
	}
	return nil
}
