package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"syscall"

	"gatewayd/internal/problem"
)

// client speaks to a running daemon through its HTTP API.
type client struct {
	base, key string
	http      *http.Client
	header    http.Header // added to each request
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
	resp, err := cl.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, path, err)
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
	req.Header.Set("Authorization", "Bearer "+cl.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := cl.http.Do(req)
	if err != nil {
		return nil, cl.unreachable(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

func (cl *client) unreachable(err error) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("reach daemon: %w", err)
	}
	u, _ := url.Parse(cl.base)
	return notRunning("gatewayd at "+u.Host, "start it with `gatewayd --foreground`, or name its address with --addr")
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
	return &problem.Error{Kind: kind, What: envelope.Error.Message}
}
