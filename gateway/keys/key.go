package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/problem"
)

// Scope is what a key is good for.
type Scope string

const (
	Read   Scope = "read"   // everything that only looks: every GET but that of the keys
	Chat   Scope = "chat"   // conversations, and with them the tools that a turn may use; includes read
	Boards Scope = "boards" // boards and cards; includes read
	Admin  Scope = "admin"  // everything, with keys, approvals and dispatch
)

// Scopes are all there are, the weakest first.
var Scopes = []Scope{Read, Chat, Boards, Admin}

// Includes reports whether who has this scope has the other one too.
func (s Scope) Includes(other Scope) bool {
	return s == Admin || s == other || other == Read && (s == Chat || s == Boards)
}

// Key is what is known of a key, which is all but its text.
type Key struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Scopes     []Scope    `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // to within ten minutes; nil: never
	ExpiresAt  *time.Time `json:"expires_at"`   // nil: never
}

// May reports whether the key is good for a scope.
func (k Key) May(scope Scope) bool {
	return slices.ContainsFunc(k.Scopes, func(has Scope) bool { return has.Includes(scope) })
}

// Expired reports whether the key's time is over.
func (k Key) Expired(now time.Time) bool { return k.ExpiresAt != nil && !now.Before(*k.ExpiresAt) }

// prefix lets a key be known for one where it does not belong, such as in a log or a commit.
const prefix = "gwk_"

// newToken makes a text of 130 random bits.
func newToken() string { return prefix + rand.Text() }

func newID() string { return "key_" + strings.ToLower(rand.Text()[:10]) }

// strong is how long a text must be to count as one that nobody tries.
const strong = 20

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

var nameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkName(name string) error {
	if nameShape.MatchString(name) {
		return nil
	}
	return &problem.Error{
		Kind: problem.Invalid, Field: "name", Thing: fmt.Sprintf("%.80q", name), What: "is no name for a key", Fate: "no key was made",
		Remedy: "use letters, digits, dots, dashes and underscores, 64 at most",
	}
}

// ParseScopes reads the names of scopes. None is a mistake: a key that may nothing is no key.
func ParseScopes(names []string) ([]Scope, error) {
	var scopes []Scope
	for _, name := range names {
		scope := Scope(strings.TrimSpace(name))
		if !slices.Contains(Scopes, scope) {
			return nil, scopeProblem(fmt.Sprintf("%.80q", name), "is no scope")
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		return nil, scopeProblem("a key", "needs a scope")
	}
	return scopes, nil
}

func scopeProblem(thing, what string) error {
	return &problem.Error{
		Kind: problem.Invalid, Field: "scopes", Thing: thing, What: what, Fate: "no key was made", Remedy: "name some of " + Names(Scopes),
	}
}

// Names lists scopes for a person.
func Names(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
