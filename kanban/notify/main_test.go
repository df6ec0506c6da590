package notify

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/vigil"
	"gatewayd/kanban"
	"gatewayd/reaper"
)

// The test binary starts itself to be a daemon's notifier that is killed.
const (
	rootVar = "NOTIFY_TEST_ROOT"
	urlVar  = "NOTIFY_TEST_URL"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestMain(m *testing.M) {
	reaper.Main()
	if root := os.Getenv(rootVar); root != "" {
		os.Exit(serveUntilStdinEnds(root, os.Getenv(urlVar)))
	}
	os.Exit(m.Run())
}

func hooks(url string) config.Notify {
	return config.Notify{Enabled: true, AllowPrivate: true, Webhooks: map[string]config.Webhook{"ops": {URL: url, Key: config.NewSecret(secret)}}}
}

// acquire opens a board as the only holder would.
func acquire(ctx context.Context, path string) (*kanban.Board, func(), error) {
	b, err := kanban.Open(ctx, kanban.Options{Path: path})
	if err != nil {
		return nil, nil, err
	}
	return b, func() { _ = b.Close() }, nil
}

func serveUntilStdinEnds(dir, url string) int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	root, err := kanban.OpenRoot(dir)
	if err != nil {
		return 1
	}
	n, err := New(Options{Root: root, Acquire: acquire, Targets: NewTargets(hooks(url), nil, dir, nil, nil), Log: slog.New(slog.DiscardHandler)})
	if err != nil || n.Run(ctx) != nil {
		return 1
	}
	return 0
}

// house is a root with the default board, one card, and a subscription of it.
type house struct {
	*testing.T
	dir   string
	root  *kanban.Root
	board *kanban.Board
	card  kanban.Task
	sub   kanban.Subscription
}

func newHouse(t *testing.T, target, address string) *house {
	t.Helper()
	h := &house{T: t, dir: t.TempDir()}
	var err error
	if h.root, err = kanban.OpenRoot(h.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.root.Close() })
	h.board, err = kanban.Open(t.Context(), kanban.Options{Path: filepath.Join(h.dir, "kanban.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.board.Close() })
	if h.card, err = h.board.Create(t.Context(), kanban.NewTask{Title: "paint the door", SessionID: "s1"}); err != nil {
		t.Fatal(err)
	}
	h.sub, err = h.board.Subscribe(t.Context(), kanban.NewSubscription{Task: h.card.ID, Target: target, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run runs a notifier for the length of the test.
func (h *house) run(targets *Targets) *Notifier {
	h.Helper()
	n, err := New(Options{
		Root: h.root, Targets: targets, Log: slog.New(slog.DiscardHandler),
		Acquire: func(context.Context, string) (*kanban.Board, func(), error) { return h.board, func() {}, nil },
	})
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() { _ = n.Run(ctx); close(done) }()
	h.Cleanup(func() { cancel(); <-done })
	return n
}

func (h *house) block() {
	h.Helper()
	if err := h.board.Block(h.Context(), h.card.ID, kanban.Block{Reason: "which colour?"}); err != nil {
		h.Fatal(err)
	}
}

func (h *house) unblock() {
	h.Helper()
	if err := h.board.Unblock(h.Context(), h.card.ID, ""); err != nil {
		h.Fatal(err)
	}
}

// until waits for the subscription to be as ok says; each look is a commit or a poll away.
func (h *house) until(what string, ok func(kanban.Subscription) bool) kanban.Subscription {
	h.Helper()
	var s kanban.Subscription
	if !vigil.Until(90*time.Second, nil, func() (yes bool) {
		var err error
		if s, err = h.board.Subscription(h.Context(), h.sub.ID); err != nil {
			h.Fatal(err)
		}
		return ok(s)
	}) {
		h.Fatalf("never %s: %+v", what, s)
	}
	return s
}

// hurry lets a row that waits for its next attempt go now.
func (h *house) hurry() {
	h.Helper()
	if _, err := h.board.Retry(h.Context(), h.sub.ID); err != nil {
		h.Fatal(err)
	}
}

// arrival is one request that a receiver got.
type arrival struct {
	header http.Header
	body   []byte
	key    string
	kind   string
}

// receiver is a real server. It hands each request to the test and answers as the test says.
func receiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) (url string, got chan arrival) {
	t.Helper()
	got = make(chan arrival, 100)
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			Key   string
			Event struct{ Kind string }
		}
		_ = json.Unmarshal(body, &m)
		n++
		got <- arrival{r.Header, body, m.Key, m.Event.Kind}
		answer(n, w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL, got
}

func next(t *testing.T, got chan arrival) arrival {
	t.Helper()
	select {
	case a := <-got:
		return a
	case <-time.After(90 * time.Second):
		t.Fatal("nothing arrives")
	}
	return arrival{}
}
