package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"gatewayd/gateway/api"
	"gatewayd/gateway/keys"
	"gatewayd/kanban"
)

// shelf is the boards of a directory, opened for each request.
type shelf struct {
	*kanban.Root
	out    sync.RWMutex // read-locked by each who has a board
	closed bool
}

// close waits for the boards that are out and gives no more: who looks after a board goes on for a moment when nobody watches it any more,
// and opening one makes files.
func (s *shelf) close() {
	s.out.Lock()
	defer s.out.Unlock()
	s.closed = true
}

func (s *shelf) open(ctx context.Context, slug kanban.Slug, create bool) (*kanban.Board, error) {
	return kanban.Open(ctx, kanban.Options{Path: s.DBPath(slug), Slug: slug, Create: create, Log: slog.New(slog.DiscardHandler)})
}

func (s *shelf) Create(ctx context.Context, slug kanban.Slug, meta kanban.Meta) (kanban.Info, error) {
	info, err := s.Root.Create(slug, meta)
	if err != nil {
		return kanban.Info{}, err
	}
	board, err := s.open(ctx, slug, true)
	if err != nil {
		return kanban.Info{}, err
	}
	return info, board.Close()
}

func (s *shelf) Acquire(ctx context.Context, slug kanban.Slug) (*kanban.Board, func(), error) {
	s.out.RLock()
	if s.closed {
		s.out.RUnlock()
		return nil, nil, errors.New("the shelf is closed")
	}
	board, err := s.open(ctx, slug, false)
	if err != nil {
		s.out.RUnlock()
		return nil, nil, err
	}
	return board, func() { _ = board.Close(); s.out.RUnlock() }, nil
}

func (s *shelf) Remove(context.Context, kanban.Slug, bool) (kanban.Removed, error) {
	return kanban.Removed{}, nil
}

// reasons are what the dispatcher says, card by card.
type reasons map[string]Hold

func (r reasons) Why(_ context.Context, _ kanban.Slug, task string) ([]Hold, error) {
	if hold, held := r[task]; held {
		return []Hold{hold}, nil
	}
	return nil, nil
}

func (r reasons) Firsts(_ context.Context, _ kanban.Slug, tasks []string) (map[string]Hold, error) {
	held := map[string]Hold{}
	for _, task := range tasks {
		if hold, there := r[task]; there {
			held[task] = hold
		}
	}
	return held, nil
}

// hall is a board behind the API with its page, and a second way to its file, as another process has it.
type hall struct {
	*httptest.Server
	t     *testing.T
	shelf *shelf
	board *kanban.Board
	why   reasons
	keys  *keys.Store

	mu   sync.Mutex
	made []string // what was changed over the API: METHOD PATH
}

func newHall(t *testing.T) *hall {
	t.Helper()
	root, err := kanban.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	h := &hall{t: t, shelf: &shelf{Root: root}, why: reasons{}, keys: keys.Fixed(testKey)}
	t.Cleanup(h.shelf.close)
	if _, err := h.shelf.Create(t.Context(), "plans", kanban.Meta{Name: "Plans"}); err != nil {
		t.Fatal(err)
	}
	if h.board, err = h.shelf.open(context.Background(), "plans", false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.board.Close() })
	stopping, quiet := make(chan struct{}), slog.New(slog.DiscardHandler)
	lanes := []string{"coder", "tester"}
	diagnose := func(ctx context.Context, b *kanban.Board) ([]kanban.Diagnostic, error) {
		return b.Diagnose(ctx, kanban.Thresholds{})
	}
	page := New(Options{Boards: h.shelf, Why: h.why, Lanes: lanes, Diagnose: diagnose, Log: quiet, Version: "test"})
	handler := api.New(api.Options{Boards: h.shelf, Lanes: lanes, Keys: h.keys, Addr: "127.0.0.1:0", Log: quiet, Page: page, Stopping: stopping})
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			h.mu.Lock()
			h.made = append(h.made, r.Method+" "+r.URL.Path)
			h.mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(stopping); h.CloseClientConnections(); h.Close() })
	return h
}

// asked is how often something was asked of the API.
func (h *hall) asked(part string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.made {
		if strings.Contains(one, part) {
			n++
		}
	}
	return n
}

// card makes a card in a status.
func (h *hall) card(title string, status kanban.Status, change ...func(*kanban.NewTask)) string {
	h.t.Helper()
	in := kanban.NewTask{Title: title, CreatedBy: "test"}
	for _, c := range change {
		c(&in)
	}
	made, err := h.board.Create(h.t.Context(), in)
	if err == nil && status != made.Status {
		_, err = h.board.Move(h.t.Context(), made.ID, status, kanban.Movement{Actor: "test"})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return made.ID
}

// at is where the file says that a card is.
func (h *hall) at(id string) kanban.Status {
	h.t.Helper()
	t, err := h.board.Task(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return t.Status
}

// open opens a page in a browser that complains to the test: of what the page says on its console, and of requests to other hosts.
func (h *hall) open(path string, width, height int64, colours string) window {
	h.t.Helper()
	watching := new(sync.WaitGroup)
	h.t.Cleanup(watching.Wait) // runs after the tab is closed, whose cleanup is registered later
	w := window{newTab(h.t, width, height, colours), h.t}
	h.watch(w, watching)
	w.do(chromedp.Navigate(h.URL + path))
	return w
}

// meant knows what a console says of what tests do: refusals and cut lines that they ask for, and a key or a click that came before the page
// gave the focus to its field, which then is left where the person had put it.
func meant(said string) bool {
	return strings.Contains(said, "Failed to load resource") || strings.HasPrefix(said, "debug: ") || strings.HasPrefix(said, "info: Autofocus processing was blocked")
}

func (h *hall) watch(w window, watching *sync.WaitGroup) {
	said, sent := chromedp.Console(w), chromedp.Events(w, network.RequestWillBeSent)
	watching.Go(func() {
		for m, err := range said {
			if err != nil {
				return
			}
			if text := fmt.Sprint(m); !meant(text) {
				h.t.Errorf("the browser's console says %s", text)
			}
		}
	})
	watching.Go(func() {
		for e, err := range sent {
			if err != nil {
				return
			}
			if !strings.HasPrefix(e.Request.URL, h.URL) && !strings.HasPrefix(e.Request.URL, "data:") {
				h.t.Errorf("a request left for %s", e.Request.URL)
			}
		}
	})
}

// writeLog makes a card's log.
func (h *hall) writeLog(id, text string) {
	h.t.Helper()
	path := h.shelf.LogPath("plans", id)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}
