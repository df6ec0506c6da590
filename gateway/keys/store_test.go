package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
)

func opened(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func added(t *testing.T, s *Store, name string, scopes ...Scope) (Key, string) {
	t.Helper()
	k, token, err := s.Add(New{Name: name, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return k, token
}

func TestAKeyThatWasRemovedIsRefusedFromTheNextRequestOn(t *testing.T) {
	dir := t.TempDir()
	daemon, verb := opened(t, dir), opened(t, dir)
	k, token := added(t, verb, "laptop", Chat)
	if got, ok := daemon.Check(token); !ok || got.ID != k.ID || !got.May(Read) || got.May(Boards) {
		t.Fatalf("%+v %v", got, ok)
	}
	ctx, done := daemon.Hold(context.Background(), Caller{Key: k, Door: DoorKey})
	defer done()
	login, err := daemon.Login(k)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := daemon.ByCookie([]string{login}); !ok {
		t.Fatal("a login is not known")
	}
	if _, err := verb.Remove("laptop"); err != nil {
		t.Fatal(err)
	}
	if _, ok := daemon.Check(token); ok {
		t.Error("a removed key is let in")
	}
	if _, _, ok := daemon.ByCookie([]string{login}); ok {
		t.Error("a login outlives its key")
	}
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), ErrGone) {
			t.Error(context.Cause(ctx))
		}
	case <-time.After(10 * time.Second):
		t.Error("what the key had open stays open")
	}
}

func TestTheFileHoldsNoKey(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	k, token := added(t, s, "laptop", Admin)
	login, err := s.Login(k)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil || strings.Contains(string(text), token) || strings.Contains(string(text), login) {
		t.Errorf("%s %v", text, err)
	}
	if info, _ := os.Stat(filepath.Join(dir, FileName)); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	again := opened(t, dir)
	if _, ok := again.Check(token); !ok {
		t.Error("a key does not outlive the process")
	}
	if _, _, ok := again.ByCookie([]string{login}); !ok {
		t.Error("a login does not outlive the process")
	}
}

func TestScopesIncludeEachOther(t *testing.T) {
	for scope, may := range map[Scope][]Scope{Read: {Read}, Chat: {Read, Chat}, Boards: {Read, Boards}, Admin: Scopes} {
		for _, other := range Scopes {
			want := strings.Contains(Names(may), string(other))
			if got := (Key{Scopes: []Scope{scope}}).May(other); got != want {
				t.Errorf("%s may %s: %v", scope, other, got)
			}
		}
	}
}

func TestAKeyIsOverWhenItsTimeIs(t *testing.T) {
	s := opened(t, t.TempDir())
	now := time.Now()
	s.now = func() time.Time { return now }
	k, token, err := s.Add(New{Name: "visitor", Scopes: []Scope{Read}, Expires: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	login, err := s.Login(k)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := s.Hold(context.Background(), Caller{Key: k, Door: DoorKey})
	defer done()
	if _, ok := s.Check(token); !ok {
		t.Error("it is over too early")
	}
	s.mu.Lock()
	now = now.Add(time.Hour)
	s.mu.Unlock()
	_, ok := s.Check(token)
	_, _, byCookie := s.ByCookie([]string{login})
	if ok || byCookie {
		t.Errorf("it is not over: %v %v", ok, byCookie)
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("what it had open stays open")
	}
}

func TestEveryMistakeWithAKeyIsExplained(t *testing.T) {
	s := opened(t, t.TempDir())
	added(t, s, "laptop", Read)
	for name, c := range map[string]struct {
		n    New
		kind problem.Kind
	}{
		"taken": {New{Name: "laptop", Scopes: []Scope{Read}}, problem.Conflict}, "no name": {New{Scopes: []Scope{Read}}, problem.Invalid},
		"odd name": {New{Name: "a b", Scopes: []Scope{Read}}, problem.Invalid}, "long name": {New{Name: strings.Repeat("x", 65), Scopes: []Scope{Read}}, problem.Invalid},
		"no scope": {New{Name: "x"}, problem.Invalid}, "odd scope": {New{Name: "x", Scopes: []Scope{"root"}}, problem.Invalid},
		"past": {New{Name: "x", Scopes: []Scope{Read}, Expires: -time.Hour}, problem.Invalid},
	} {
		if _, _, err := s.Add(c.n); !problem.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Remove("nobody"); !problem.Is(err, problem.NotFound) {
		t.Error(err)
	}
	if _, _, err := s.Rotate("nobody"); !problem.Is(err, problem.NotFound) {
		t.Error(err)
	}
}

func TestTheApiKeyIsTakenInOnceAndStaysRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	begin := func() (*Store, bool) {
		home, err := config.HoldHome(dir, config.Holder{PID: os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		defer home.Release()
		s := opened(t, dir)
		created, err := s.Begin(home)
		if err != nil {
			t.Fatal(err)
		}
		return s, created
	}
	copyAt := filepath.Join(dir, "api.key")
	s, created := begin()
	first, err := config.ReadAPIKey(dir)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if k, ok := s.Check(first.Reveal()); !ok || k.Name != "first" || !k.May(Admin) {
		t.Errorf("%+v %v", k, ok)
	}
	if err := os.Remove(copyAt); err != nil {
		t.Fatal(err)
	}
	if s, created = begin(); created {
		t.Error("a key was made although there is one")
	}
	if _, ok := s.Check(first.Reveal()); !ok {
		t.Error("with its copy the key went")
	}
	if err := os.WriteFile(copyAt, []byte("a key that a person wrote\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copyAt, []byte("a-key-that-a-person-wrote\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ = begin()
	_, old := s.Check(first.Reveal())
	if _, ok := s.Check("a-key-that-a-person-wrote"); !ok || old {
		t.Errorf("a new api.key is %v, the old key is %v", ok, old)
	}
	_, rotated, err := s.Rotate("first")
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := config.ReadAPIKey(dir); err != nil || copied.Reveal() != rotated {
		t.Errorf("api.key holds an old key: %v", err)
	}
	if s, _ = begin(); len(s.List()) != 1 {
		t.Errorf("%+v", s.List())
	}
	if _, ok := s.Check(rotated); !ok {
		t.Error("a rotated key does not outlive a restart")
	}
	if _, err := s.Remove("first"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(copyAt); err == nil {
		t.Error("the copy of a removed key stays")
	}
	if err := os.WriteFile(copyAt, []byte(rotated+"\n"), 0o600); err != nil { // as where it lies on a read-only mount
		t.Fatal(err)
	}
	if s, created = begin(); created {
		t.Error("a key was made anew")
	}
	if _, ok := s.Check(rotated); ok {
		t.Error("a removed key came back by its copy")
	}
}

func TestAFileThatWasSpoiltLetsNobodyElseInAndStartsNothing(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	_, token := added(t, s, "laptop", Read)
	path := filepath.Join(dir, FileName)
	for _, text := range []string{"", "{", `{"version":7}`, "[]"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Check(token); !ok {
			t.Errorf("%q: the key is not known any more", text)
		}
		if _, err := Open(dir, nil); !problem.Is(err, problem.Config) {
			t.Errorf("%q: %v", text, err)
		}
		if _, _, err := s.Add(New{Name: "x", Scopes: []Scope{Read}}); err == nil {
			t.Errorf("%q was written over", text)
		}
	}
}

func TestTwoProcessesLoseNoKeyOfEachOther(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan error, 4)
	for p := range cap(ended) {
		s := opened(t, dir)
		go func() {
			for i := range 10 {
				if _, _, err := s.Add(New{Name: fmt.Sprintf("k%d.%d", p, i), Scopes: []Scope{Read}}); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if n := len(opened(t, dir).List()); n != 40 {
		t.Errorf("%d keys of 40", n)
	}
}

func TestCookiesOfOtherPortsDoNotConfuse(t *testing.T) {
	s, other := opened(t, t.TempDir()), opened(t, t.TempDir())
	mine, _ := added(t, s, "me", Chat)
	theirs, _ := added(t, other, "me", Chat)
	token, err := s.Login(mine)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := other.ByCookie([]string{token})
	if ok {
		t.Fatal("another daemon's login is let in")
	}
	second, err := other.Login(theirs)
	if err != nil {
		t.Fatal(err)
	}
	both := CookieValue(second, rest)
	for name, store := range map[string]*Store{"this": s, "the other": other} {
		for _, values := range [][]string{{both}, {"junk", both}, {"a.b", "", both, "..."}} {
			if _, _, ok := store.ByCookie(values); !ok {
				t.Errorf("%s daemon does not find its login in %q", name, values)
			}
		}
	}
	c, rest, _ := other.ByCookie([]string{both})
	if err := other.Logout(c); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := other.ByCookie([]string{both}); ok {
		t.Error("a login outlives the logout")
	}
	if _, _, ok := s.ByCookie([]string{CookieValue("", rest)}); !ok {
		t.Error("a logout at one daemon ends the login at another")
	}
}
