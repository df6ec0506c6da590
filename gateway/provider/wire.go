package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const namingTimeout = 10 * time.Second

// newRequest builds a request below the base URL, keeping the base's query.
func (c *client) newRequest(ctx context.Context, method, endpoint, key string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(endpoint).String(), body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream, application/json")
	request.Header.Set("User-Agent", "gatewayd")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	c.dialect.sign(request.Header, key)
	return request, nil
}

// modelName is the configured name, or the first one the server lists, remembered once found.
func (c *client) modelName(ctx context.Context) (string, *Error) {
	c.mu.Lock()
	name := c.name
	c.mu.Unlock()
	if name != "" {
		return name, nil
	}
	bounded, cancel := context.WithTimeout(ctx, namingTimeout)
	defer cancel()
	models, err := c.list(bounded)
	if ctx.Err() != nil {
		return "", interrupted(ctx, Response{})
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		return "", failed
	}
	if err != nil || len(models) == 0 {
		message := "the server lists no model"
		if err != nil {
			message = "ask the server for its models: " + transportMessage(err)
		}
		return "", c.clean(&Error{Class: ModelNotFound, Message: message, Remedy: "set model.name", Err: err})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		c.name = models[0].ID
		c.window.set(models[0].Window, windowListed)
	}
	return c.name, nil
}

// listed is one entry of /models. Window is 0 where the server does not say.
type listed struct {
	ID     string
	Window int
}

// is reports that a model goes by this name too: Gemini's list has a path before it, Ollama's a tag behind it.
func (l listed) is(name string) bool {
	return l.ID == name || l.ID == "models/"+name || l.ID == name+":latest"
}

// list asks for the models. The bodies of strangers on a usual port are bounded and judged: no list of models, no model server.
func (c *client) list(ctx context.Context) ([]listed, error) {
	c.mu.Lock()
	key := c.key
	c.mu.Unlock()
	request, err := c.newRequest(ctx, http.MethodGet, "models", key, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Load().Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.refused(response, body)
	}
	return parseModels(body)
}

// parseModels reads the list; the window stands in another field with each kind of server.
func parseModels(body []byte) ([]listed, error) {
	data, ok := looseObject(body)["data"]
	if !ok {
		return nil, errors.New("the answer is no list of models")
	}
	var models []listed
	for _, raw := range looseList(data) {
		fields := looseObject(raw)
		entry := listed{ID: looseText(fields["id"])}
		places := []json.RawMessage{fields["context_length"], fields["max_model_len"], fields["max_context_length"], fields["context_window"], fields["max_input_tokens"], fields["loaded_context_length"], looseObject(fields["meta"])["n_ctx"]}
		for _, place := range places {
			if n, ok := looseInt(place); ok && n > 0 && n < 1e9 {
				entry.Window = int(n)
				break
			}
		}
		if entry.ID != "" {
			models = append(models, entry)
		}
	}
	return models, nil
}

// clean takes the credentials out of an error and bounds its length. Servers quote the key they refuse.
func (c *client) clean(err *Error) *Error {
	c.mu.Lock()
	secrets := []string{c.opts.Key, c.key}
	c.mu.Unlock()
	if c.base != nil && c.base.User != nil {
		password, _ := c.base.User.Password()
		secrets = append(secrets, password)
	}
	err.Message = oneLine(err.Message)
	for _, secret := range secrets {
		if secret != "" {
			err.Message = strings.ReplaceAll(err.Message, secret, "[key]")
		}
	}
	err.Message = shorten(err.Message)
	if err.Err != nil {
		err.Err = sealed{err.Err, err.Message}
	}
	return err
}

// sealed keeps a cause for errors.Is without letting its words out.
type sealed struct {
	cause error
	words string
}

func (s sealed) Error() string        { return s.words }
func (s sealed) Is(target error) bool { return errors.Is(s.cause, target) }

// transportMessage says in few words why there was no answer. The address is the caller's to add: url.Error would show its query.
func transportMessage(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused, nothing listens there"
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, errDropped):
		return "the connection broke before the answer was complete"
	case errors.As(err, &op) && op.Timeout():
		return "no connection within " + connectTimeout.String()
	}
	return err.Error()
}

// parseBase accepts http and https addresses with a host.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		// url.Error repeats the text, which may hold a password.
		return nil, errors.New("it cannot be parsed")
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("it does not begin with http:// or https:// and a host")
	}
	base.Fragment = ""
	return base, nil
}

// publicURL is the address without what may be secret in it.
func publicURL(base *url.URL) string {
	public := *base
	public.User, public.RawQuery = nil, ""
	return public.String()
}

// isLocal reports whether a host is this machine or its own network, judged by its address and never by a part of its name.
func isLocal(host string) bool {
	switch host {
	case "localhost", "host.docker.internal", "host.containers.internal", "wsl.localhost":
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast())
}
