package keys

import (
	"slices"
	"strings"
	"time"
)

const (
	// Cookie is the name of the page's cookie.
	Cookie = "gatewayd"
	// LoginTime is how long a login is good for.
	LoginTime = 30 * 24 * time.Hour

	loginsMost  = 200 // of all keys; the oldest go
	tokensMost  = 4   // in one cookie: those of daemons on other ports of this host lie in it too
	tokensApart = "."
)

// Login gives a browser a token of its own in place of a key. It is written down before it is given.
func (s *Store) Login(k Key) (token string, err error) {
	token = newToken()
	now := s.now().UTC().Truncate(time.Second)
	err = s.update(func(b *book) error {
		if b.find(k.ID) < 0 {
			return noKey(k.Name)
		}
		b.Logins = append(b.Logins, login{Hash: hashOf(token), Key: k.ID, CreatedAt: now, ExpiresAt: now.Add(LoginTime)})
		if more := len(b.Logins) - loginsMost; more > 0 {
			b.Logins = slices.Delete(b.Logins, 0, more)
		}
		return nil
	})
	return token, err
}

// Logout ends a login and what it has open.
func (s *Store) Logout(c Caller) error {
	if c.login == "" {
		return nil
	}
	return s.update(func(b *book) error {
		b.Logins = slices.DeleteFunc(b.Logins, func(l login) bool { return l.Hash == c.login })
		return nil
	})
}

// ByCookie gives who the values of our cookie stand for. There may be several, and each may hold tokens of other daemons: a browser keeps the
// cookies of a host without its port. rest is what is not ours and has to stay in the cookie.
func (s *Store) ByCookie(values []string) (c Caller, rest []string, ok bool) {
	s.mu.Lock()
	s.refresh()
	now := s.now()
	var stale bool
	for _, token := range tokensOf(values) {
		l := s.logins[hashOf(token)]
		if l == nil {
			rest = append(rest, token)
			continue
		}
		at := s.book.find(l.Key)
		if ok || at < 0 || !now.Before(l.ExpiresAt) || s.book.Keys[at].Expired(now) {
			continue
		}
		c, ok = Caller{Key: s.book.Keys[at].Key, Door: DoorCookie, login: l.Hash}, true
		stale = s.used(&s.book.Keys[at])
	}
	s.mu.Unlock()
	if stale {
		s.noteUse(c.Key.ID)
	}
	return c, rest, ok
}

// tokensOf takes the values apart; more than a few are somebody's attempt to make us work.
func tokensOf(values []string) (tokens []string) {
	for _, value := range values {
		for token := range strings.SplitSeq(value, tokensApart) {
			if token != "" && !slices.Contains(tokens, token) {
				tokens = append(tokens, token)
			}
			if len(tokens) == 2*tokensMost {
				return tokens
			}
		}
	}
	return tokens
}

// CookieValue is what the cookie holds: our token first, then those of other daemons on this host. Without ours it may be empty.
func CookieValue(token string, rest []string) string {
	tokens := rest
	if token != "" {
		tokens = append([]string{token}, rest...)
	}
	return strings.Join(tokens[:min(len(tokens), tokensMost)], tokensApart)
}
