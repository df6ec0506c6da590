package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/chamber"
	"gatewayd/internal/fakellm"
)

// Whatever the model's server does or fails to do, the turn ends in time and in words, without asking it more often than that is
// good for, and the next message of the conversation is answered.
func TestATurnEndsInWordsWhateverTheModelDoes(t *testing.T) {
	t.Parallel()
	together(t, modelPlays(), func(p play) string { return p.name }, perform)
}

// always is a model that does one thing for ever.
func always(r fakellm.Response) func(int, fakellm.Request) fakellm.Response {
	return func(int, fakellm.Request) fakellm.Response { return r }
}

// first does each of the list once, and the last for ever.
func first(list ...fakellm.Response) func(int, fakellm.Request) fakellm.Response {
	return func(n int, _ fakellm.Request) fakellm.Response { return list[min(n, len(list)-1)] }
}

func modelPlays() []play {
	patient := patientWhole()
	patient.model = ", breaker_after: 3" // what one turn of three calls reaches
	return []play{
		{name: "provider_hang", knobs: hasty(), fault: always(fakellm.Hang{}), want: explained, least: 3, most: callBound, between: switchModel, probed: usesOtherModel},
		{name: "provider_stall_reasoning_model", knobs: patient, fault: always(fakellm.StallMidStream{Reasoning: "let me think about that for a while", After: 3}), want: explained, least: 3, most: callBound, probed: refusedByBreaker},
		{name: "provider_500_forever", knobs: hasty(), fault: always(fakellm.Error{Status: http.StatusInternalServerError}), want: explained, least: 3, most: callBound},
		{name: "provider_429_forever", knobs: hasty(), fault: always(fakellm.Error{Status: http.StatusTooManyRequests, RetryAfter: "1"}), want: explained, least: 3, most: callBound},
		{name: "provider_garbage_forever", knobs: hasty(), fault: always(fakellm.Raw{Body: "<html>no model at all</html>", ContentType: "text/html"}), want: explained, least: 3, most: callBound},
		{name: "provider_400_forever", knobs: hasty(), fault: always(fakellm.Error{Status: http.StatusBadRequest, Message: "this server does not like the request"}), want: explained, least: 1, most: 2},
		{name: "provider_drop_mid_stream_forever", knobs: hasty(), fault: always(fakellm.DropMidStream{Text: "a few words that never come to an end", After: 2}), want: ended, least: 2, most: callBound},
		{name: "provider_hang_then_recover", knobs: hasty(), fault: first(fakellm.Hang{}, fakellm.Text{Text: "Back again."}), want: answered, least: 2, most: 3, after: says("Back again.")},
		{name: "provider_slow_trickle_is_not_stale", knobs: patientWhole(), fault: always(trickle), want: answered, least: 1, most: 1, after: says(trickle.Text)},
	}
}

// patientWhole are limits under which an answer of ten seconds is no trouble: silence is what they are about.
func patientWhole() knobs {
	k := hasty()
	k.request = 600 * time.Second
	return k
}

// trickle is an answer of forty pieces, four of them a second.
var trickle = fakellm.Text{Text: strings.Repeat("word ", 40), ChunkChars: 5, Delay: 250 * time.Millisecond}

// says demands that the words of the first turn are those, and that they are what is stored.
func says(text string) func(*playing) {
	return func(p *playing) {
		if got := strings.TrimSpace(p.turn.text); got != strings.TrimSpace(text) {
			p.t.Errorf("the turn said %q", got)
		}
		if countRows(p.rows, "assistant", strings.TrimSpace(text)) != 1 {
			p.t.Errorf("what was said is not one row")
		}
	}
}

const otherModel = "other-model"

// switchModel is what a person does about a model that hangs.
func switchModel(p *playing) {
	p.slash(playedSession, "/model "+otherModel)
}

// replied is what a command answered. Session is where the chat is from now on.
type replied struct{ Text, Session string }

// slash runs a command in a conversation.
func (d *daemon) slash(session, line string) (r replied) {
	d.t.Helper()
	d.call(http.MethodPost, "/api/sessions/"+session+"/commands", map[string]string{"line": line}, &r)
	return r
}

// usesOtherModel demands an answer of the model that the conversation was switched to.
func usesOtherModel(p *playing) {
	if !strings.Contains(p.probe.text, p.nonce) || len(p.probes) != 1 {
		p.t.Errorf("the probe was answered with %q, %q after %d calls\n%s", p.probe.text, p.probe.why, len(p.probes), p.report())
		return
	}
	if got := modelOf(p.probes[0]); got != otherModel {
		p.t.Errorf("the probe asked the model %q", got)
	}
	if got := modelOf(p.calls[0]); got != fakellm.Model {
		p.t.Errorf("the first turn asked the model %q", got)
	}
}

func modelOf(r fakellm.Request) string {
	var body struct{ Model string }
	_ = json.Unmarshal(r.Body, &body)
	return body.Model
}

// refusedByBreaker demands that the probe is refused at once, in words that say when the next try is, and without a call.
func refusedByBreaker(p *playing) {
	if len(p.probes) != 0 || p.probe.took > time.Second {
		p.t.Errorf("the probe took %v and %d calls\n%s", p.probe.took, len(p.probes), p.report())
	}
	if !strings.Contains(p.probe.words(), "next try") {
		p.t.Errorf("the probe was refused in the words %q", p.probe.words())
	}
	for _, want := range []string{"probe: ", " 0 calls\n", `"breaker_open":true`, `"silent":3`, "went silent for 3s", "left alone"} { // what tells a breaker from a slow answer
		if report := p.report(); !strings.Contains(report, want) {
			p.t.Errorf("the report of a failed probe lacks %q:\n%s", want, report)
		}
	}
}

func callsJSON(calls []chamber.SentCall) json.RawMessage {
	raw, err := json.Marshal(calls)
	if err != nil {
		return nil
	}
	return raw
}
