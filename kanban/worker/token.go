package worker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// tokenPrefix tells a run's token from the API key.
const tokenPrefix = "run."

// Signer makes and reads the tokens by which a worker speaks for its run over HTTP. They are stateless, so a worker's token
// outlives a restart of the daemon; whether the run is still the current one is asked of the board with each call. The
// zero Signer makes none and accepts none.
type Signer struct {
	key []byte

	old   []byte // what runs that began until then were signed with
	until int64  // seconds since 1970
}

// NewSigner derives the key from a secret. An empty one gives the zero Signer.
func NewSigner(secret string) Signer {
	if secret == "" {
		return Signer{}
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("gatewayd tokens of runs, version 1"))
	return Signer{key: mac.Sum(nil)}
}

// Token names a run and proves that this home said so. It is empty without a secret.
func (s Signer) Token(f kanban.Fence) string {
	if s.key == nil {
		return ""
	}
	claim := strings.Join([]string{string(f.Board), f.Task, strconv.FormatInt(int64(f.Run), 10), strconv.FormatInt(f.Started, 10)}, "/")
	return tokenPrefix + encoded([]byte(claim)) + "." + encoded(sign(s.key, claim))
}

// IsToken reports whether a bearer says that it is a run's token.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// Fence reads a token. One that is not ours, or was changed, is a Denied problem.
func (s Signer) Fence(token string) (kanban.Fence, error) {
	claim, mark, ok := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	said, err := base64.RawURLEncoding.DecodeString(claim)
	given, markErr := base64.RawURLEncoding.DecodeString(mark)
	if !ok || !IsToken(token) || err != nil || markErr != nil {
		return kanban.Fence{}, notOurs()
	}
	fence, err := fenceOf(string(said))
	if err != nil || !s.signed(string(said), given, fence.Started) {
		return kanban.Fence{}, notOurs()
	}
	return fence, nil
}

func notOurs() error {
	return &problem.Error{
		Kind: problem.Denied, Thing: "the run's token", What: "is not one of this daemon's", Fate: "nothing was changed",
		Remedy: "use the GATEWAYD_KANBAN_TOKEN that the worker was started with",
	}
}

// signed reports whether the mark is ours. The old key counts for runs of its own time alone.
func (s Signer) signed(claim string, mark []byte, started int64) bool {
	if s.key != nil && hmac.Equal(mark, sign(s.key, claim)) {
		return true
	}
	return s.old != nil && started <= s.until && hmac.Equal(mark, sign(s.old, claim))
}

// fenceOf takes apart what Token has put together. A card's id is between two slashes and may hold some itself.
func fenceOf(claim string) (f kanban.Fence, err error) {
	parts := strings.Split(claim, "/")
	if len(parts) < 4 {
		return f, fmt.Errorf("a token of %d parts", len(parts))
	}
	last := len(parts) - 1
	run, err := strconv.ParseInt(parts[last-1], 10, 64)
	if err != nil {
		return f, err
	}
	f.Started, err = strconv.ParseInt(parts[last], 10, 64)
	f.Board, f.Task, f.Run = kanban.Slug(parts[0]), strings.Join(parts[1:last-1], "/"), kanban.RunID(run)
	return f, err
}

func sign(key []byte, claim string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(claim))
	return mac.Sum(nil)
}

func encoded(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
