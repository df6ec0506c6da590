package chamber

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// ClaimHeader carries, with each request of an agent, the digest of what the rows in the file give at that moment. The
// server on the other side compares it with what it was sent.
const ClaimHeader = "X-Rows-Digest"

// faithful is a model that reads the conversation from the file before each request of a turn, and refuses one that is
// anything else than what the rows give.
type faithful struct {
	provider.Model
	store   *sessiondb.Store
	session string
}

func (m *faithful) Complete(ctx context.Context, r provider.Request, sink func(provider.Delta)) (provider.Response, error) {
	if len(r.Tools) > 0 {
		digest, err := m.claim(ctx, r)
		if err != nil {
			return provider.Response{}, &provider.Error{Class: provider.FormatError, Err: err}
		}
		ctx = context.WithValue(ctx, claimKey{}, digest)
	}
	return m.Model.Complete(ctx, r, sink)
}

func (m *faithful) claim(ctx context.Context, r provider.Request) (string, error) {
	rows, err := m.store.Transcript(ctx, m.session)
	if err != nil {
		return "", err
	}
	session, err := m.store.Session(ctx, m.session)
	if err != nil {
		return "", err
	}
	system, err := m.store.Prompt(ctx, session.PromptHash)
	if err != nil {
		return "", err
	}
	persisted := gateway.Replay(rows)
	if r.System != system || !reflect.DeepEqual(r.Messages, persisted) {
		return "", fmt.Errorf("a request of %d messages is not what %d rows give", len(r.Messages), len(rows))
	}
	return SentDigest(sentOf(system, persisted)), nil
}

// Sent is one message of a request, as both sides see it.
type Sent struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolCalls  []SentCall `json:"tool_calls,omitempty"`
}

// SentCall is one call in it.
type SentCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func sentOf(system string, messages []provider.Message) []Sent {
	out := []Sent{{Role: "system", Content: system}}
	for _, m := range messages {
		s := Sent{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			call := SentCall{ID: c.ID}
			call.Function.Name, call.Function.Arguments = c.Name, c.Arguments
			s.ToolCalls = append(s.ToolCalls, call)
		}
		out = append(out, s)
	}
	return out
}

// SentDigest names the messages of a request.
func SentDigest(messages []Sent) string {
	text, _ := json.Marshal(messages) // strings always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

type claimKey struct{}

// claiming puts the claim into the request's header.
type claiming struct{ http.RoundTripper }

func (c claiming) RoundTrip(r *http.Request) (*http.Response, error) {
	if digest, ok := r.Context().Value(claimKey{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set(ClaimHeader, digest)
	}
	return c.RoundTripper.RoundTrip(r)
}

// window is what the model of an agent takes, in tokens.
const window = 64_000

// newModel is the server at url; the key tells it who asks.
func newModel(url, tag string) provider.Model {
	return provider.New(provider.Options{BaseURL: url, Name: "chamber", Key: tag, ContextLength: window, Transport: claiming{http.DefaultTransport}})
}
