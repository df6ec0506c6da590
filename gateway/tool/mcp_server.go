package tool

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/internal/procfs"
)

// mcpProtocol is the version that is asked for first: servers answer with theirs, and the newest one begins with a request that many do
// not know.
const mcpProtocol = "2025-06-18"

const (
	maxTools   = 256 // of one server; more would leave no room in any window
	mcpGrace   = 2 * time.Second
	mcpReclaim = 10 * time.Second
)

// mcpServer is one server: its connection while there is one, and what it has said of itself.
type mcpServer struct {
	name string
	conf MCPServer
	of   *MCP
	log  *slog.Logger
	said *output // what a program writes to its standard error, and what it should not have written to its output

	first sync.Once
	tried chan struct{} // closed when it was reached, or failed, for the first time

	mu      sync.Mutex
	session *mcp.ClientSession
	tools   []mcpTool // of the last time it was reached
	state   string
	reason  string
	since   time.Time
	retry   time.Time
	lost    chan struct{} // closed by a call that found the connection dead
	changed chan struct{} // one token: its list of tools is another
	fault   error         // why this connection ends, where we end it
}

func newMCPServer(name string, conf MCPServer, of *MCP) *mcpServer {
	return &mcpServer{
		name: name, conf: conf, of: of, log: of.opts.Log.With("server", name), said: newOutput(16 << 10), tried: make(chan struct{}),
		state: "connecting", since: time.Now(), changed: make(chan struct{}, 1),
	}
}

// keep reaches the server again and again until ctx ends. A failure that repeats is logged when it changes.
func (s *mcpServer) keep(ctx context.Context) {
	wait, told := mcpBackoff, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := s.serve(ctx)
		s.first.Do(func() { close(s.tried) })
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > mcpSettled {
			wait, told = mcpBackoff, ""
		}
		reason := s.clean(reasonOf(s.faultOr(err)))
		s.note("lost", reason, time.Now().Add(wait))
		if reason != told {
			s.log.Warn("MCP server lost", "error", reason, "said", s.lastWords(), "again", wait.String())
			told = reason
		}
		rest(ctx, wait)
		wait = min(2*wait, mcpLongest)
	}
	s.note("lost", "gatewayd is stopping", time.Time{})
}

func reasonOf(err error) string {
	if err == nil {
		return "it closed the connection"
	}
	return err.Error()
}

// blame notes what a server did wrong, for those who wait for its answer.
func (s *mcpServer) blame(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// faultOr prefers what the server did wrong to what came of it.
func (s *mcpServer) faultOr(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.fault, err)
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serve is one connection, from its beginning to its end.
func (s *mcpServer) serve(ctx context.Context) (err error) {
	s.note("connecting", "", time.Time{})
	s.blame(nil)
	bound, cancel := context.WithTimeoutCause(ctx, s.conf.ConnectTimeout, fmt.Errorf("it did not answer within %v (connect_timeout)", s.conf.ConnectTimeout))
	defer cancel()
	transport, end, err := s.dial(bound)
	if err != nil {
		return err
	}
	defer end()
	client := mcp.NewClient(&mcp.Implementation{Name: "gatewayd", Version: s.of.opts.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler),
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { s.change() },
	})
	session, err := client.Connect(bound, transport, &mcp.ClientSessionOptions{ProtocolVersion: mcpProtocol})
	if err != nil {
		return because(bound, err)
	}
	defer session.Close()
	if err := s.learn(bound, session); err != nil {
		return because(bound, err)
	}
	cancel()
	return s.attend(ctx, session)
}

// because prefers the cause of a context that has ended.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// attend waits for the connection's end, and reads the tools again when they have changed.
func (s *mcpServer) attend(ctx context.Context, session *mcp.ClientSession) error {
	lost := make(chan struct{})
	s.mu.Lock()
	s.session, s.lost = session, lost
	s.mu.Unlock()
	s.note("connected", "", time.Time{})
	s.first.Do(func() { close(s.tried) })
	s.log.Info("MCP server connected", "tools", len(s.list()))
	defer func() {
		s.mu.Lock()
		s.session, s.lost = nil, nil
		s.mu.Unlock()
	}()
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	var (
		learnt time.Time        // when its list was read again
		due    <-chan time.Time // a list that never rests must not keep us busy
	)
	for {
		select {
		case err := <-ended:
			return err
		case <-lost:
			_ = session.Close()
			<-ended
			return errors.New("the connection broke during a call")
		case <-ctx.Done():
			_ = session.Close()
			<-ended
			return context.Cause(ctx)
		case <-s.changed:
			if due == nil {
				due = time.After(mcpBackoff - time.Since(learnt))
			}
		case <-due:
			due, learnt = nil, time.Now()
			bound, cancel := context.WithTimeout(ctx, s.conf.ConnectTimeout)
			if err := s.learn(bound, session); err != nil {
				s.log.Warn("changed tools of an MCP server cannot be read", "error", s.clean(err.Error()))
			}
			cancel()
		}
	}
}

func (s *mcpServer) change() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// learn reads what tools there are. What does not fit is left out, and said.
func (s *mcpServer) learn(ctx context.Context, session *mcp.ClientSession) error {
	var offered []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		if t != nil && s.wanted(t.Name) {
			offered = append(offered, t)
		}
		if len(offered) > maxTools {
			s.log.Warn("MCP server has too many tools, the rest is left out", "limit", maxTools)
			break
		}
	}
	tools := s.toolsOf(offered)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	return nil
}

// wanted asks include and exclude.
func (s *mcpServer) wanted(name string) bool {
	match := func(pattern string) bool { return like(pattern, name) }
	return (len(s.conf.Include) == 0 || slices.ContainsFunc(s.conf.Include, match)) && !slices.ContainsFunc(s.conf.Exclude, match)
}

func (s *mcpServer) list() []mcpTool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

func (s *mcpServer) note(state, reason string, retry time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.reason, s.retry, s.since = state, reason, retry, time.Now()
}

func (s *mcpServer) status() MCPStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := MCPStatus{Name: s.name, State: s.state, Reason: s.reason, Since: s.since, Tools: len(s.tools)}
	if !s.retry.IsZero() {
		retry := s.retry
		st.Retry = &retry
	}
	return st
}

// current gives the connection, or why there is none.
func (s *mcpServer) current() (*mcp.ClientSession, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, ""
	}
	why := s.state
	if s.reason != "" {
		why += ": " + s.reason
	}
	if !s.retry.IsZero() {
		why += "; it is tried again at " + s.retry.Format(time.TimeOnly)
	}
	return nil, why
}

// broken tells the keeper that a call found the connection dead.
func (s *mcpServer) broken(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session && s.lost != nil {
		close(s.lost)
		s.lost, s.session = nil, nil
	}
}

// clean takes this server's secrets out of a text that may quote them, and what a terminal would act on.
func (s *mcpServer) clean(text string) string {
	return Plain(s.redact(text))
}

func (s *mcpServer) redact(text string) string {
	for _, secret := range s.conf.Secrets {
		if len(secret) >= leastSecret {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// leastSecret is below what any key has; shorter texts would take half of a sentence with them.
const leastSecret = 6

// lastWords is the end of what a program said before it was lost.
func (s *mcpServer) lastWords() string {
	text := strings.TrimSpace(s.said.String())
	return s.clean(text[max(0, len(text)-500):])
}

func newMCPKeeperID() (string, error) {
	self, err := procfs.Self()
	if err != nil {
		return "", fmt.Errorf("identify this process: %w", err)
	}
	return fmt.Sprintf("mcp-%d-%d-%s", self.PID, self.Start, strings.ToLower(rand.Text()[:16])), nil
}
