package netguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"gatewayd/internal/mutation"
)

// Redirects is how many a fetch follows; each address is judged when it is dialled.
const Redirects = 5

var (
	// ErrAddress is inside the error of an address that is none of http or https, or holds a user.
	ErrAddress = errors.New("address is not fetched")
	// ErrRedirects is inside the error of a fetch that was sent on too often.
	ErrRedirects = fmt.Errorf("more than %d redirects", Redirects)
	// ErrTooLarge is inside the error of what is larger than the bound, announced or not.
	ErrTooLarge = errors.New("it is too large")
)

// StatusError is an answer other than 200.
type StatusError struct{ Status string }

func (e *StatusError) Error() string { return "the answer is " + e.Status }

// Bounds of a fetch: both must be given.
type Bounds struct {
	Bytes int64
	Time  time.Duration // from the first byte of the question to the last of the answer
}

// Fetched is what is arriving. The caller closes Body, whose reading fails with ErrTooLarge beyond the bound.
type Fetched struct {
	URL    *url.URL // where it was found in the end
	Header http.Header
	Body   io.ReadCloser
}

// Fetch gets one address with GET. It sends no cookie, no key and no word of who asks.
func (g Guard) Fetch(ctx context.Context, address string, b Bounds) (*Fetched, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, ErrAddress
	}
	if err := fetchable(u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Time)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w: %v", ErrAddress, err)
	}
	request.Header.Set("User-Agent", "gatewayd")
	transport := g.Transport()
	if mutation.On("attach-url-without-guard") {
		transport.DialContext = (&net.Dialer{}).DialContext
	}
	over := func() { cancel(); transport.CloseIdleConnections() }
	answer, err := (&http.Client{Transport: transport, CheckRedirect: followed}).Do(request)
	if err != nil {
		over()
		return nil, err
	}
	body := &bounded{ReadCloser: answer.Body, left: b.Bytes, done: over}
	switch {
	case answer.StatusCode != http.StatusOK:
		err = &StatusError{answer.Status}
	case answer.ContentLength > b.Bytes:
		err = ErrTooLarge
	}
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return &Fetched{URL: answer.Request.URL, Header: answer.Header, Body: body}, nil
}

// Get is Fetch with the whole body, for what fits into memory.
func (g Guard) Get(ctx context.Context, address string, b Bounds) (mediaType string, data []byte, err error) {
	f, err := g.Fetch(ctx, address, b)
	if err != nil {
		return "", nil, err
	}
	defer f.Body.Close()
	data, err = io.ReadAll(f.Body)
	return f.Header.Get("Content-Type"), data, err
}

func fetchable(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%w: it must be http or https", ErrAddress)
	case u.User != nil:
		return fmt.Errorf("%w: it holds a user name or a password", ErrAddress)
	}
	return nil
}

// followed judges where a redirect leads, as far as its text tells; the address is the dialer's to judge.
func followed(r *http.Request, via []*http.Request) error {
	r.Header.Del("Referer") // the address before may hold a secret
	if len(via) > Redirects {
		return ErrRedirects
	}
	if fetchable(r.URL) != nil {
		return ErrRefused
	}
	return nil
}

// bounded ends with an error where there is more than there may be.
type bounded struct {
	io.ReadCloser
	left int64
	done func()
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

func (b *bounded) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
