package keys

import (
	"fmt"
	"os"
	"slices"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

// firstName is the key that the first start makes, or takes in from api.key.
const firstName = "first"

// most is how many keys a home may have: each is a line that a person has to keep in mind.
const most = 1000

// New is a key to be made.
type New struct {
	Name    string
	Scopes  []Scope
	Expires time.Duration // from now, at most ExpiresMost; zero: never
}

// ExpiresMost is the longest that a key which ends by itself may live.
const ExpiresMost = 10 * 365 * 24 * time.Hour

// Add makes a key and gives its text, which is nowhere else and never shown again.
func (s *Store) Add(n New) (Key, string, error) {
	if err := checkName(n.Name); err != nil {
		return Key{}, "", err
	}
	if _, err := ParseScopes(words(n.Scopes)); err != nil {
		return Key{}, "", err
	}
	if n.Expires < 0 || n.Expires > ExpiresMost {
		return Key{}, "", &problem.Error{
			Kind: problem.Invalid, Field: "expires_in", Thing: "key " + n.Name, What: "would end before it begins, or in more than ten years", Fate: "no key was made",
			Remedy: "give a time between, or none for a key that does not end",
		}
	}
	token := newToken()
	e := entry{Key: Key{ID: newID(), Name: n.Name, Scopes: slices.Clone(n.Scopes), CreatedAt: s.now().UTC().Truncate(time.Second)}, Hash: hashOf(token)}
	if n.Expires > 0 {
		until := s.now().Add(n.Expires).UTC().Truncate(time.Second)
		e.ExpiresAt = &until
	}
	err := s.update(func(b *book) error {
		if b.find(n.Name) >= 0 {
			return &problem.Error{Kind: problem.Conflict, Field: "name", Thing: "key " + n.Name, What: "exists already", Fate: "no key was made", Remedy: "choose another name, or rotate that one"}
		}
		if len(b.Keys) >= most {
			return &problem.Error{Kind: problem.Full, Thing: "this home", What: fmt.Sprintf("has %d keys", most), Fate: "no key was made", Remedy: "remove some"}
		}
		b.Keys = append(b.Keys, e)
		return nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return e.Key, token, nil
}

// Remove ends a key, by its name or ID, with its logins and all that it has open.
func (s *Store) Remove(name string) (gone Key, err error) {
	var hash string
	err = s.update(func(b *book) error {
		at := b.find(name)
		if at < 0 {
			return noKey(name)
		}
		gone, hash = b.Keys[at].Key, b.Keys[at].Hash
		b.Keys = slices.Delete(b.Keys, at, at+1)
		b.Logins = slices.DeleteFunc(b.Logins, func(l login) bool { return l.Key == gone.ID })
		return nil
	})
	if err == nil && s.copied(hash) {
		_ = os.Remove(config.APIKeyPath(s.dir)) // it opens nothing any more, whether it can be removed or not
	}
	return gone, err
}

// copied reports whether api.key holds the text of a key.
func (s *Store) copied(hash string) bool {
	if s.dir == "" {
		return false
	}
	text, err := config.ReadAPIKey(s.dir)
	return err == nil && hashOf(text.Reveal()) == hash
}

// Rotate gives a key a new text. The old one, and its logins, are over at once. Where api.key holds the old text it gets the new one, so that what
// reads it goes on to work.
func (s *Store) Rotate(name string) (k Key, token string, err error) {
	token = newToken()
	err = s.update(func(b *book) error {
		at := b.find(name)
		if at < 0 {
			return noKey(name)
		}
		if s.copied(b.Keys[at].Hash) && config.WriteWhole(config.APIKeyPath(s.dir), token+"\n") == nil {
			b.TakenIn = hashOf(token)
		}
		b.replace(at, token)
		k = b.Keys[at].Key
		return nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, token, nil
}

// replace makes text the key at a place, under a new ID: what the old text has open ends with its ID.
func (b *book) replace(at int, text string) {
	old := b.Keys[at].ID
	b.Logins = slices.DeleteFunc(b.Logins, func(l login) bool { return l.Key == old })
	e := &b.Keys[at]
	e.ID, e.Hash, e.Weak, e.LastUsedAt = newID(), hashOf(text), len(text) < strong, nil
}

func noKey(name string) error {
	return &problem.Error{Kind: problem.NotFound, Thing: fmt.Sprintf("key %.80q", name), What: "does not exist", Fate: "nothing was changed", Remedy: "`gatewayd keys list` shows those there are"}
}

func words(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

// takeIn makes the text of api.key a key for everything. One that was taken in before is not again, so that a key which was removed stays
// removed however long its copy lies there; another text than last time takes the place of the first key, as whoever wrote it wants.
func (s *Store) takeIn(text string) error {
	hash := hashOf(text)
	if s.knows(hash) {
		return nil
	}
	return s.update(func(b *book) error {
		if b.TakenIn == hash {
			return nil
		}
		b.TakenIn = hash
		if slices.ContainsFunc(b.Keys, func(e entry) bool { return e.Hash == hash }) {
			return nil
		}
		if at := b.find(firstName); at >= 0 {
			b.replace(at, text)
			return nil
		}
		k := Key{ID: newID(), Name: firstName, Scopes: []Scope{Admin}, CreatedAt: s.now().UTC().Truncate(time.Second)}
		b.Keys = append(b.Keys, entry{Key: k, Hash: hash, Weak: len(text) < strong})
		return nil
	})
}

func (s *Store) knows(hash string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.TakenIn == hash
}

// Begin takes in the api.key of a held home, and makes one where the home has no key at all. created reports that.
func (s *Store) Begin(home *config.HomeLock) (created bool, err error) {
	text, err := config.ReadAPIKey(s.dir)
	if problem.Is(err, problem.NotFound) {
		if s.began() {
			return false, nil // the copy was put away; the key is in force
		}
		text, created, err = home.APIKey()
	} else if err == nil {
		home.WarnOpenKey()
	}
	if err != nil {
		return false, err
	}
	if len(text.Reveal()) < strong {
		home.Warnings = append(home.Warnings, fmt.Sprintf("the key in api.key has %d characters, which can be guessed: `gatewayd keys rotate %s` makes a better one", len(text.Reveal()), firstName))
	}
	return created, s.takeIn(text.Reveal())
}

// began reports whether the home has had a key.
func (s *Store) began() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stamp != nil
}
