package notify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/reaper"
)

func TestAWebhookIsSignedAsTheStandardSays(t *testing.T) {
	key, err := secretKey(config.NewSecret(secret))
	if err != nil {
		t.Fatal(err)
	}
	// the example that every library of the standard is tested with
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature is %s, want %s", got, want)
	}
	for _, bad := range []string{"", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_!", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := secretKey(config.NewSecret(bad)); err == nil {
			t.Errorf("secret %q is taken", bad)
		}
	}
}

func TestASubscriberGetsEachEventSignedAndInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "ops")
	url, got := receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	h.block()
	h.unblock()
	h.block()
	h.run(NewTargets(hooks(url), nil, h.dir, nil, nil))
	var kinds []string
	for range 3 {
		a := next(t, got)
		kinds = append(kinds, a.kind)
		key, _ := secretKey(config.NewSecret(secret))
		id, stamp := a.header.Get("webhook-id"), a.header.Get("webhook-timestamp")
		if a.header.Get("webhook-signature") != sign(key, id, stamp, a.body) || id != a.key || a.header.Get("Idempotency-Key") != id || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers are %v for %s", a.header, a.body)
		}
		var m struct {
			Type, Board string
			Task        struct{ Title string }
		}
		if err := json.Unmarshal(a.body, &m); err != nil || m.Type != "card."+a.kind || m.Board != "default" || m.Task.Title != "paint the door" {
			t.Errorf("body is %s, %v", a.body, err)
		}
	}
	if !slices.Equal(kinds, []string{"blocked", "unblocked", "blocked"}) {
		t.Errorf("events came as %v", kinds)
	}
	h.until("all delivered", func(s kanban.Subscription) bool { return s.Delivered == 3 && s.Pending == 0 })
}

func TestAReceiverThatMisbehavesGetsTheSameKeyUntilItTakesIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "ops")
	hang := make(chan struct{})
	defer close(hang)
	ways := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		},
		func(w http.ResponseWriter, _ *http.Request) { // a reset
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
		},
		func(w http.ResponseWriter, r *http.Request) { // never an answer
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		func(w http.ResponseWriter, r *http.Request) { // an answer whose body never ends: the status counts
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	}
	url, got := receiver(t, func(n int, w http.ResponseWriter, r *http.Request) { ways[min(n, len(ways))-1](w, r) })
	targets := NewTargets(hooks(url), nil, h.dir, nil, nil)
	targets.limit = 2 * time.Second
	h.run(targets)
	h.block()
	key := ""
	for i := range ways {
		a := next(t, got)
		if key == "" {
			key = a.key
		}
		if a.key != key || a.kind != "blocked" {
			t.Errorf("attempt %d has key %s of %s, want %s", i, a.key, a.kind, key)
		}
		if i < len(ways)-1 {
			h.until("failed", func(s kanban.Subscription) bool { return s.LastError != "" && s.Lease.Holder == "" })
			h.hurry()
		}
	}
	h.until("delivered", func(s kanban.Subscription) bool { return s.Delivered == 1 })
}

func TestARefusalParksAndShowsAndARetryDelivers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		whole  bool // the subscription, not the one row
		says   string
	}{
		"gone": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "moved out", http.StatusGone) }, true, "410 Gone: moved out"},
		"bad":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, false, "400"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusTemporaryRedirect)
		}, true, "answered 307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kanban.TargetWebhook, "ops")
			url, got := receiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					c.answer(w, r)
				}
			})
			h.run(NewTargets(hooks(url), nil, h.dir, nil, nil))
			h.block()
			first := next(t, got)
			s := h.until("parked", func(s kanban.Subscription) bool { return s.Parked == 1 })
			if (s.ParkedAt != 0) != c.whole || !strings.Contains(s.LastError+s.ParkedReason, c.says) {
				t.Errorf("subscription is %+v", s)
			}
			h.hurry()
			if again := next(t, got); again.key != first.key {
				t.Errorf("key is %s, then %s", first.key, again.key)
			}
			h.until("delivered", func(s kanban.Subscription) bool { return s.Delivered == 1 && s.ParkedAt == 0 })
		})
	}
}

func TestAnAddressOfThisMachineIsNotReachedUnlessAllowed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "ops")
	url, got := receiver(t, func(int, http.ResponseWriter, *http.Request) {})
	c := hooks(url)
	c.AllowPrivate = false
	h.run(NewTargets(c, nil, h.dir, nil, nil))
	h.block()
	s := h.until("parked", func(s kanban.Subscription) bool { return s.ParkedAt != 0 })
	if !strings.Contains(s.ParkedReason, "is refused") || len(got) != 0 {
		t.Errorf("%+v, %d requests", s, len(got))
	}
}

func TestWaitsGrowAndEndInParking(t *testing.T) {
	now := time.Now()
	for n, want := range map[int64]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 6: 160 * time.Second, 7: 300 * time.Second, 500: 300 * time.Second} {
		if got := wait(n); got > want || got < want-want/5 {
			t.Errorf("wait %d is %v, want about %v", n, got, want)
		}
	}
	fail := outcome{verdict: tryAgain, err: "no", after: 40 * time.Minute}
	p := kanban.Parcel{Attempts: 1, TriedAt: now.Unix()}
	if d := fail.next(p, now); d.Next.Sub(now) != 40*time.Minute || d.Park || d.ParkAll {
		t.Errorf("Retry-After is not kept: %+v", d)
	}
	p.TriedAt = now.Add(-giveUp).Unix()
	if d := fail.next(p, now); !d.ParkAll {
		t.Errorf("six hours: %+v", d)
	}
	for text, want := range map[string]time.Duration{"120": 2 * time.Minute, "": 0, "-3": 0, "99999999999": giveUp, "86400": giveUp, now.Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour} {
		if got := retryAfter(text, now).Round(time.Minute); got != want {
			t.Errorf("Retry-After %q is %v, want %v", text, got, want)
		}
	}
}

// daemon starts this binary as the notifier of a process of its own.
func (h *house) daemon(url string) *exec.Cmd {
	h.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), rootVar+"="+h.dir, urlVar+"="+url)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { stdin.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestAProcessKilledBetweenSendingAndRecordingSendsAgainUnderTheSameKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "ops")
	url, got := receiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done() // it has the event, and the sender dies before it hears so
		}
	})
	h.block()
	first := h.daemon(url)
	sent := next(t, got)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	h.daemon(url)
	again := next(t, got)
	if again.key != sent.key || string(again.body) != string(sent.body) {
		t.Errorf("sent %s\nthen %s", sent.body, again.body)
	}
	h.until("delivered", func(s kanban.Subscription) bool { return s.Delivered == 1 })
}

func TestOfTwoDaemonsOneDelivers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "ops")
	var mu sync.Mutex
	seen := map[string]int{}
	url, got := receiver(t, func(int, http.ResponseWriter, *http.Request) {})
	h.daemon(url)
	h.daemon(url)
	const events = 20
	for range events / 2 {
		h.block()
		h.unblock()
	}
	h.until("all delivered", func(s kanban.Subscription) bool { return s.Delivered == events })
	var kinds []string
	for range len(got) {
		a := next(t, got)
		mu.Lock()
		seen[a.key]++
		mu.Unlock()
		kinds = append(kinds, a.kind)
	}
	for i, kind := range kinds {
		if want := []string{"blocked", "unblocked"}[i%2]; kind != want {
			t.Fatalf("order is %v", kinds)
		}
	}
	if len(seen) != events || len(kinds) != events {
		t.Errorf("%d requests with %d keys for %d events", len(kinds), len(seen), events)
	}
}

// chat is a Sessions that keeps what it was told.
type chat struct {
	mu   sync.Mutex
	told []string
	fail bool
}

func (c *chat) Has(_ context.Context, id string) (bool, error) { return id == "s1", nil }

func (c *chat) Deliver(_ context.Context, _, key, text string, wake bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail {
		c.fail = false
		return io.ErrUnexpectedEOF
	}
	c.told = append(c.told, fmt.Sprintf("%v %s", wake, text))
	return nil
}

func TestAChatSessionIsToldAndWokenOnlyForWhatNeedsIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetSession, "s1")
	c := &chat{fail: true}
	h.run(NewTargets(config.Notify{}, nil, h.dir, nil, c))
	h.block()
	h.until("failed", func(s kanban.Subscription) bool { return s.LastError != "" })
	h.hurry()
	h.unblock()
	h.until("delivered", func(s kanban.Subscription) bool { return s.Delivered == 2 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) != 2 || !strings.HasPrefix(c.told[0], "true [board default] card "+h.card.ID+": blocked") ||
		!strings.Contains(c.told[0], "which colour?") || !strings.HasPrefix(c.told[1], "false ") {
		t.Errorf("told %q", c.told)
	}
}

func TestACommandFindsTheEventInAFileAndNothingElseOfIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetCommand, "keep")
	r, err := reaper.New(reaper.Options{Dir: filepath.Join(t.TempDir(), "keepers")})
	if err != nil {
		t.Skipf("no keepers here: NOT shown that a command is run: %v", err)
	}
	out := filepath.Join(t.TempDir(), "out")
	script := `test "$1" = "two words" && cp "$GATEWAYD_EVENT_FILE" ` + out + ` && env > ` + out + `.env && test "$GATEWAYD_EVENT_KIND" = blocked`
	c := config.Notify{Commands: map[string]config.Command{"keep": {Argv: []string{"sh", "-c", script, "sh", "two words"}}}}
	environ := config.Environ{"PATH=" + os.Getenv("PATH"), "SECRET_KEY=hidden"}
	h.run(NewTargets(c, environ, h.dir, r, nil))
	h.block()
	h.until("delivered", func(s kanban.Subscription) bool { return s.Delivered == 1 })
	raw, err := os.ReadFile(out)
	if err != nil || !json.Valid(raw) || !strings.Contains(string(raw), "which colour?") {
		t.Errorf("file is %s, %v", raw, err)
	}
	if env, err := os.ReadFile(out + ".env"); err != nil || strings.Contains(string(env), "hidden") || !strings.Contains(string(env), "GATEWAYD_EVENT_KEY=gwn_") {
		t.Errorf("environment is %s, %v", env, err)
	}
	if left, _ := os.ReadDir(filepath.Join(h.dir, "notify")); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestATargetThatNobodyConfiguredIsRefusedWhenSubscribingAndKeptWhenItGoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, kanban.TargetWebhook, "gone")
	targets := NewTargets(hooks("http://127.0.0.1:1"), nil, h.dir, nil, &chat{})
	for _, c := range [][2]string{{kanban.TargetWebhook, "gone"}, {kanban.TargetCommand, "x"}, {kanban.TargetSession, "s2"}} {
		if err := targets.Check(t.Context(), c[0], c[1]); !problem.Is(err, problem.Invalid) && !problem.Is(err, problem.NotFound) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := targets.Check(t.Context(), kanban.TargetWebhook, "ops"); err != nil {
		t.Error(err)
	}
	n := h.run(targets)
	h.block()
	h.until("pending", func(s kanban.Subscription) bool { return s.Pending == 1 && s.Lease.Holder == "" })
	if err := n.Test(t.Context(), h.board, h.sub.ID); !problem.Is(err, problem.NotFound) {
		t.Error(err)
	}
}

func TestADisabledBoardIsNeverOpened(t *testing.T) {
	root, err := kanban.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.WriteFile(filepath.Join(root.Dir(), "kanban.db"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	shut, opened := true, 0
	n, err := New(Options{
		Root: root, Targets: NewTargets(config.Notify{}, nil, "", nil, nil), Log: slog.New(slog.DiscardHandler),
		Disabled: func(kanban.Slug) error {
			if shut {
				return io.ErrUnexpectedEOF
			}
			return nil
		},
		Acquire: func(ctx context.Context, path string) (*kanban.Board, func(), error) {
			opened++
			return acquire(ctx, path)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n.look(t.Context())
	}
	if opened != 0 {
		t.Errorf("a disabled board was opened %d times", opened)
	}
	shut = false // nobody dispatches here, so nobody disables: it is found out once
	for range 3 {
		n.look(t.Context())
		for _, b := range n.boards {
			b.again = time.Time{}
		}
	}
	if opened != 1 {
		t.Errorf("a damaged board was opened %d times", opened)
	}
}
