package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"gatewayd/config"
	"gatewayd/internal/homesocket"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// callBound is how long an answer that is not a conversation may take: a daemon that hangs must not hang its users.
const callBound = 30 * time.Second

// client speaks to a running daemon through its HTTP API.
type client struct {
	base, key string
	http      *http.Client
	header    http.Header // added to each request
	absent    string      // the home whose daemon is known not to run here: whoever answers is somebody else
}

// dial gives a client of the daemon of this home. The address that the daemon announced wins over the
// configured one, because it may listen on a free port.
func (c *cli) dial() (*client, error) {
	loaded, err := c.load()
	if err != nil {
		return c.dialPast(err)
	}
	if err := mustBeDir("home ", loaded.Home); err != nil {
		return nil, err
	}
	addr, absent := loaded.API.Addr, ""
	holder, held, err := config.HolderOf(loaded.Home)
	if words := stormOfHome(loaded.Home); held && holder.Addr == "" && words != "" {
		return nil, &problem.Error{
			Kind: problem.NotRunning, Thing: fmt.Sprintf("the daemon of home %s, pid %d,", loaded.Home, holder.PID), What: words,
			Remedy: "`gatewayd logs` says how its runs ended; stop it and start it with --foreground to see one end",
		}
	}
	switch {
	case isURL(c.addr):
		addr = c.addr
	case c.addr != "" || err != nil: // it was named, or nobody knows
	case !held:
		absent = loaded.Home
	case holder.Addr != "":
		addr = holder.Addr
	}
	key, err := config.ReadAPIKey(loaded.Home)
	byItsSocket := held && c.addr == ""
	if problem.Is(err, problem.NotFound) && byItsSocket {
		err = nil // the socket asks for no key
	}
	if problem.Is(err, problem.NotFound) {
		return nil, notRunning("the daemon of home "+loaded.Home, "start it with `gatewayd --foreground`, or name its directory with --home")
	}
	if err != nil {
		return nil, err
	}
	cl, err := c.clientOf(addr, key.Reveal())
	if err != nil {
		return nil, err
	}
	cl.absent = absent
	if byItsSocket {
		cl.http.Transport = socketFirst(loaded.Home)
	}
	return cl, nil
}

// dialPast reaches the daemon of a home whose configuration cannot be read: its socket needs the home alone, and it goes on with the
// configuration that it was started with. Where none runs, what is wrong with the configuration is all there is to say.
func (c *cli) dialPast(broken error) (*client, error) {
	home, err := c.homeDir()
	if err != nil || c.addr != "" {
		return nil, broken
	}
	holder, held, err := config.HolderOf(home)
	if err != nil || !held || mutation.On("broken-config-hides-the-daemon") {
		return nil, broken
	}
	key, _ := config.ReadAPIKey(home) // the socket asks for none
	cl := newClient("http://"+cmp.Or(holder.Addr, "daemon"), key.Reveal())
	cl.http.Transport = socketFirst(home)
	return cl, nil
}

// socketTime is how long a daemon may take to take a connection at its socket.
const socketTime = 2 * time.Second

// socketFirst goes to the daemon by the socket of its home, and where that is not there, or not for us, by its address.
func socketFirst(home string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		short, cancel := context.WithTimeout(ctx, socketTime)
		defer cancel()
		if conn, err := homesocket.Dial(short, home, apiSocket); err == nil {
			return conn, nil
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
}

// with gives a client that adds one header to each request.
func (cl *client) with(name, value string) *client {
	added := *cl
	added.header = cl.header.Clone()
	if added.header == nil {
		added.header = http.Header{}
	}
	added.header.Set(name, value)
	return &added
}

func newClient(base, key string) *client { return &client{base: base, key: key, http: &http.Client{}} }

// call sends body (nil for none) and decodes the answer into out (nil to drop it).
func (cl *client) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	resp, err := cl.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return cl.unreachable(fmt.Errorf("read answer of %s %s: %w", method, path, err))
	}
	return nil
}

// send gives the response of a request that succeeded; the caller closes its body.
func (cl *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, cl.base+path, payload)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, cl.header)
	if cl.key != "" {
		req.Header.Set("Authorization", "Bearer "+cl.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := cl.http.Do(req)
	if err != nil {
		return nil, cl.unreachable(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		if cl.absent != "" {
			return nil, notRunning("the daemon of home "+cl.absent, "start it with `gatewayd --foreground`; what answers on "+cl.addr()+" is another one")
		}
		return nil, refusal(resp)
	}
	return resp, nil
}

func (cl *client) addr() string { return strings.TrimPrefix(cl.base, "http://") } // https is worth saying

// unreachable says why there is no answer: nobody listens, somebody else does, or the daemon hangs.
func (cl *client) unreachable(err error) error {
	thing := "the daemon at " + cl.addr()
	if cl.absent != "" {
		thing = "the daemon of home " + cl.absent
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return notRunning(thing, "start it with `gatewayd --foreground`, or name its address with --addr")
	}
	if strange := cl.strange(thing, err); strange != nil {
		return strange
	}
	what := "does not answer as a gatewayd does"
	if errors.Is(err, context.DeadlineExceeded) {
		what, err = fmt.Sprintf("gave no answer within %v", callBound), unsaid{err}
	}
	return &problem.Error{Kind: problem.Unavailable, Thing: thing, What: what, Remedy: "look at its log, or name its address with --addr", Err: bare(err)}
}

// bare leaves out the request, which says nothing that the reader does not know.
func bare(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

func notRunning(thing, remedy string) error {
	return &problem.Error{Kind: problem.NotRunning, Thing: thing, What: "is not running", Remedy: remedy}
}

// kindByStatus reads a refusal of the API back into a kind.
var kindByStatus = map[int]problem.Kind{
	http.StatusBadRequest: problem.Invalid, http.StatusNotFound: problem.NotFound, http.StatusConflict: problem.Conflict,
	http.StatusTooManyRequests: problem.Busy, http.StatusInsufficientStorage: problem.Full,
	http.StatusUnauthorized: problem.Denied, http.StatusForbidden: problem.Denied, http.StatusServiceUnavailable: problem.Unavailable,
}

// refusal turns the API's error envelope into the error that it was made from.
func refusal(resp *http.Response) error {
	var envelope struct {
		Error struct{ Message, Code string }
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(raw, &envelope) != nil || envelope.Error.Message == "" {
		envelope.Error.Message = fmt.Sprintf("HTTP %s", resp.Status)
	}
	kind, ok := kindByStatus[resp.StatusCode]
	if !ok {
		kind = problem.Internal
	}
	return &problem.Error{Kind: kind, What: envelope.Error.Message, Err: apiCode(envelope.Error.Code)}
}

// apiCode is the stable word of a refusal, for who has to tell refusals of one kind apart.
type apiCode string

// turnRunning refuses a message that is for an idle conversation only.
const turnRunning = "turn_running"

func (apiCode) Error() string { return "" }
