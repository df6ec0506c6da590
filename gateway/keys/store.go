package keys

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// usedEvery is how exact a key's last use is: more would write the file with every request.
const usedEvery = 10 * time.Minute

// Store is the keys of one home. It is safe for concurrent use, and other processes may change the file beside it.
type Store struct {
	dir string // empty: the keys are in memory only
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	book    book
	stamp   fs.FileInfo // of the file that book was read from
	trouble string      // why the file cannot be read now; it was logged
	keys    map[string]*entry
	logins  map[string]*login
	held    held

	patience Patience
}

// Open reads the keys of a home. A home without any has none; Begin makes the first. A nil log is none.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{dir: dir, log: log, now: time.Now}
	b, info, err := readBook(bookPath(dir))
	if err != nil {
		return nil, err
	}
	s.adopt(b, info)
	return s, nil
}

// Fixed gives a store in memory with one key for everything, for a handler without a home. An empty text gives one without any key.
func Fixed(text string) *Store {
	s := &Store{log: slog.New(slog.DiscardHandler), now: time.Now}
	b := book{Version: bookVersion}
	if text != "" {
		b.Keys = []entry{{Key: Key{ID: "key_fixed", Name: firstName, Scopes: []Scope{Admin}, CreatedAt: time.Now().UTC()}, Hash: hashOf(text)}}
	}
	s.adopt(b, nil)
	return s
}

// adopt makes b what is known. Callers hold mu, or are alone.
func (s *Store) adopt(b book, info fs.FileInfo) {
	s.book, s.stamp = b, info
	s.keys, s.logins = make(map[string]*entry, len(b.Keys)), make(map[string]*login, len(b.Logins))
	for i := range b.Keys {
		s.keys[b.Keys[i].Hash] = &b.Keys[i]
	}
	for i := range b.Logins {
		s.logins[b.Logins[i].Hash] = &b.Logins[i]
	}
}

// refresh reads the file again when it is another one. What cannot be read leaves what was known: a file that was spoilt is no reason to let
// nobody in, and who can write it can do worse.
func (s *Store) refresh() {
	if s.dir == "" {
		return
	}
	info, err := os.Stat(bookPath(s.dir))
	if err == nil && s.stamp != nil && os.SameFile(info, s.stamp) && info.ModTime().Equal(s.stamp.ModTime()) && info.Size() == s.stamp.Size() {
		s.told("")
		return
	}
	if errors.Is(err, fs.ErrNotExist) && s.stamp == nil {
		return
	}
	var b book
	if err == nil {
		b, info, err = readBook(bookPath(s.dir))
	}
	switch {
	case err != nil:
		s.told(err.Error())
	case info == nil:
		s.told("it is gone")
	case mutation.On("removed-key-is-accepted") && len(b.Keys) < len(s.book.Keys):
	default:
		s.told("")
		s.adopt(b, info)
	}
}

// told logs a trouble when it begins, changes and ends.
func (s *Store) told(trouble string) {
	switch {
	case trouble == s.trouble:
	case trouble == "":
		s.log.Info("keys are read again", "path", bookPath(s.dir))
	default:
		s.log.Warn("keys cannot be read; those that were known stay in force", "path", bookPath(s.dir), "error", trouble)
	}
	s.trouble = trouble
}

// Check gives the key of a text. A text that is nobody's, and a key whose time is over, is none. It may write the file, to say when the key was
// used.
func (s *Store) Check(text string) (Key, bool) {
	k, _, ok := s.check(text)
	return k, ok
}

// check tells whether the key is weak, too.
func (s *Store) check(text string) (k Key, weak, ok bool) {
	if text == "" {
		return Key{}, false, false
	}
	hash := hashOf(text)
	s.mu.Lock()
	s.refresh()
	e := s.keys[hash] // by its hash: how long that takes says nothing of the text
	if e == nil || e.Expired(s.now()) {
		s.mu.Unlock()
		return Key{}, false, false
	}
	k, weak = e.Key, e.Weak
	stale := s.used(e)
	s.mu.Unlock()
	if stale {
		s.noteUse(k.ID)
	}
	return k, weak, true
}

// used marks a key as used now and reports whether the file says something much older.
func (s *Store) used(e *entry) bool {
	now := s.now().UTC().Truncate(time.Second)
	if e.LastUsedAt != nil && now.Sub(*e.LastUsedAt) < usedEvery {
		return false
	}
	e.LastUsedAt = &now
	return true
}

// noteUse writes down that a key was used. That it cannot be is nobody's trouble.
func (s *Store) noteUse(id string) {
	now := s.now().UTC().Truncate(time.Second)
	err := s.update(func(b *book) error {
		if at := b.find(id); at >= 0 {
			b.Keys[at].LastUsedAt = &now
		}
		return nil
	})
	if err != nil {
		s.log.Debug("last use of a key not written", "key", id, "error", err)
	}
}

// List gives all keys, in the order in which they were made.
func (s *Store) List() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	list := make([]Key, 0, len(s.book.Keys))
	for _, e := range s.book.Keys {
		list = append(list, e.Key)
	}
	return list
}

// update changes the file under its lock, which it waits for a few seconds, and then what is known.
func (s *Store) update(change func(*book) error) error {
	if s.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		b := s.book
		b.Keys, b.Logins = slices.Clone(b.Keys), slices.Clone(b.Logins)
		if err := change(&b); err != nil {
			return err
		}
		s.adopt(b, nil)
		s.sweep()
		return nil
	}
	unlock, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := bookPath(s.dir)
	b, _, err := readBook(path)
	if err != nil {
		return err
	}
	b.tidy(s.now())
	if err := change(&b); err != nil {
		return err
	}
	if err := b.write(path); err != nil {
		return &problem.Error{Kind: problem.Unavailable, Thing: path, What: "cannot be written", Fate: "nothing was changed", Remedy: "see that the home is writable and has space", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	s.sweep()
	return nil
}

// Ask is Check for a text that came from an address: wrong ones are counted, and an address that sent too many is told how long to wait. A right
// key is let in all the same, so that nobody is locked out by a neighbour; only a weak one, which may just have been guessed, waits too.
func (s *Store) Ask(text, address string) (k Key, wait time.Duration, ok bool) {
	k, weak, ok := s.check(text)
	if ok && !weak {
		return k, 0, true
	}
	if ok {
		wait = s.patience.Wait(address, s.now())
		return k, wait, wait == 0
	}
	if text == "" { // nobody tries nothing
		return Key{}, 0, false
	}
	return Key{}, s.patience.Wrong(address, s.now()), false
}
