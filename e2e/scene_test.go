package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/procfs"
	"gatewayd/internal/vigil"
)

// knobs are the settings that a suite turns.
type knobs struct {
	stale      time.Duration // before the first piece of an answer, and between two
	request    time.Duration // one call of the model as a whole
	command    time.Duration // one command of the terminal
	retries    int
	iterations int
	window     int           // of the model, in tokens
	model      string        // more of the section, in YAML: ", key: value"
	grace      time.Duration // of a stop
	agent      string        // more of the section, the same way
	more       string        // further sections
}

// hasty are the limits of the liveness suites: short enough for a test, in the same proportion as a person's.
func hasty() knobs {
	return knobs{stale: 3 * time.Second, request: 5 * time.Second, command: 3 * time.Second, retries: 2, iterations: 8, window: 128_000, grace: time.Second}
}

// forever are limits that no test reaches: only an interrupt ends what hangs.
func forever() knobs {
	const long = 600 * time.Second
	return knobs{stale: long, request: long, command: long, retries: 2, iterations: 500, window: 128_000, grace: time.Second}
}

func (k knobs) yaml(url string) string {
	return fmt.Sprintf(`model: {provider: openai, base_url: %q, name: fake-model, context_length: %d, request_timeout: %v, first_token_timeout: %v, stall_timeout: %v, max_retries: %d%s}
tools: {terminal: allow, terminal_timeout: %v}
agent: {max_iterations: %d, shutdown_grace: %v%s}
%s`, url, k.window, k.request, k.stale, k.stale, k.retries, k.model, k.command, k.iterations, k.grace, k.agent, k.more)
}

// scene is a daemon of its own with a home of its own, and the model behind it, which is in this process. Nothing of it
// is shared with another scene, so that each begins as a person's first start does.
type scene struct {
	*daemon
	model *fakellm.Server
	proxy *strangers
}

// newScene starts a daemon whose model answers as each says.
func newScene(t *testing.T, k knobs, each func(fakellm.Request) fakellm.Response) *scene {
	t.Helper()
	return newSceneWith(t, k, fakellm.Options{Each: each})
}

func newSceneWith(t *testing.T, k knobs, o fakellm.Options) *scene {
	t.Helper()
	s := &scene{model: fakellm.Start(o), proxy: newStrangers(t)}
	t.Cleanup(s.model.Close)
	home := newHome(t, k.yaml(s.model.URL()))
	s.daemon = launchIn(t, home, home, s.proxy.env())
	s.ready()
	return s
}

// again starts the next daemon of the same home, in a directory. The one before it has ended.
func (s *scene) again(dir string) {
	s.t.Helper()
	s.daemon = launchIn(s.t, dir, s.home, s.proxy.env())
	s.ready()
}

// killed ends the daemon as a power cut does.
func (s *scene) killed() {
	s.t.Helper()
	if err := s.child.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	s.end()
}

// strangers is the proxy that daemons of the suites are told of. Requests to the loopback pass it by, so that whatever
// reaches it was meant for a machine outside.
type strangers struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newStrangers(t *testing.T) *strangers {
	p := &strangers{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.Host)
		p.mu.Unlock()
		http.Error(w, "the suites speak to the loopback alone", http.StatusBadGateway)
	}))
	t.Cleanup(func() {
		p.Close()
		if len(p.seen) > 0 {
			t.Errorf("requests were made outside the loopback: %q", p.seen)
		}
	})
	return p
}

func (p *strangers) env() []string {
	return []string{"HTTP_PROXY=" + p.URL, "HTTPS_PROXY=" + p.URL}
}

// onStage bounds how many scenes play at once. They wait far more than they work, and there may be two cores only.
var onStage = make(chan struct{}, 3)

// together plays each of a list as a test of its own, a few at a time. Plays are not t.Parallel, because those share
// one bound with everything that works for its time.
func together[T any](t *testing.T, list []T, name func(T) string, run func(*testing.T, T)) {
	t.Helper()
	abreast(t, onStage, list, name, run)
}

// abreast runs each of a list as a test of its own, as many at a time as there are places.
func abreast[T any](t *testing.T, places chan struct{}, list []T, name func(T) string, run func(*testing.T, T)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, item := range list {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			t.Run(name(item), func(t *testing.T) { run(t, item) })
		})
	}
	wg.Wait()
}

// family are the living processes of a home: its daemon, its keepers, its commands, its clients. What a command started
// is found by its environment, wherever it went.
func family(t *testing.T, home string) []int {
	t.Helper()
	pids := commands(t, home)
	more, err := procfs.Tagged("HOME", home)
	if err != nil {
		t.Fatal(err)
	}
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if text, err := procfs.Command(p.PID); err == nil && strings.Contains(text, home) {
			more = append(more, p.PID)
		}
	}
	pids = append(pids, more...)
	slices.Sort(pids)
	return slices.Compact(pids)
}

// commands are the living processes that tools of this home's daemon have started.
func commands(t *testing.T, home string) []int {
	t.Helper()
	pids, err := procfs.Tagged("GATEWAYD_HOME", home)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// nobodyOf waits until no process of a home lives, and gives those that outstay the limit with their command lines.
func nobodyOf(t *testing.T, home string, limit time.Duration) (left []string) {
	t.Helper()
	var pids []int
	if vigil.Until(limit, nil, func() bool { pids = family(t, home); return len(pids) == 0 }) {
		return nil
	}
	for _, pid := range pids {
		text, _ := procfs.Command(pid) // one that has just ended says nothing
		left = append(left, fmt.Sprintf("%d %s", pid, text))
	}
	return left
}

// The settings of the suites name no address but the loopback, and nothing in them makes a daemon ask anybody else.
func TestTheSuitesNameNoAddressButTheLoopback(t *testing.T) {
	model := fakellm.New(t)
	for _, k := range []knobs{hasty(), forever()} {
		text := k.yaml(model.URL())
		if strings.Count(text, "://") != 1 || !strings.Contains(text, "http://127.0.0.1:") {
			t.Errorf("settings with another address:\n%s", text)
		}
	}
	host, _, err := net.SplitHostPort(model.Addr())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("the model listens on %s", model.Addr())
	}
}

// A daemon that asks somebody outside is noticed: otherwise the proxy would prove nothing.
func TestARequestOutsideTheLoopbackIsNoticed(t *testing.T) {
	p := newStrangers(t)
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at), DisableKeepAlives: true}}
	resp, err := client.Get("http://gatewayd.example/")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if len(p.seen) != 1 {
		t.Errorf("seen: %q", p.seen)
	}
	p.seen = nil
}
