package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/netguard"
)

// Bounds of a file that is fetched for a card.
const (
	maxFetch     = 25 << 20 // the most that an attachment may have
	maxRedirects = 5
	fetchTime    = 60 * time.Second
)

// Fetcher gets files from public addresses of the internet and from nowhere else: a model that reads a page can be talked into
// naming an address that only this machine can reach. Each address is judged by the guard when it is dialled, those of
// redirects too.
type Fetcher struct {
	Guard    netguard.Guard
	MaxBytes int64 // of one file; 0 = 25 MiB
}

// Fetched is a file that is arriving. The caller closes Body, which fails with an error once the file is too large.
type Fetched struct {
	Filename, ContentType string
	Body                  io.ReadCloser
}

// Get begins to fetch a file. Its errors are problems that say that nothing was attached.
func (f *Fetcher) Get(ctx context.Context, address string) (*Fetched, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, refuse("url", "must be an http or https address", "send the whole address of one file, like https://example.com/a.pdf")
	}
	if u.User != nil {
		return nil, refuse("url", "holds a user name or a password", "send an address that needs none")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel()
		return nil, refuse("url", err.Error(), "send another address")
	}
	request.Header.Set("User-Agent", "gatewayd")
	client, transport := f.client()
	response, err := client.Do(request)
	if err != nil {
		cancel()
		transport.CloseIdleConnections()
		return nil, unfetched(u, err)
	}
	body := &bounded{ReadCloser: response.Body, left: f.maxBytes(), done: func() { cancel(); transport.CloseIdleConnections() }}
	if response.StatusCode != http.StatusOK {
		_ = body.Close()
		return nil, refuse("url "+u.Redacted(), fmt.Sprintf("was answered with %s", response.Status), "send an address that can be read without signing in")
	}
	if response.ContentLength > f.maxBytes() {
		_ = body.Close()
		return nil, tooLarge(f.maxBytes())
	}
	return &Fetched{Filename: nameOf(response), ContentType: response.Header.Get("Content-Type"), Body: body}, nil
}

func (f *Fetcher) maxBytes() int64 {
	if f == nil || f.MaxBytes <= 0 {
		return maxFetch
	}
	return f.MaxBytes
}

var errRedirects = errors.New("more than 5 redirects")

func (f *Fetcher) client() (*http.Client, *http.Transport) {
	var guard netguard.Guard
	if f != nil {
		guard = f.Guard
	}
	transport := guard.Transport()
	if mutation.On("attach-url-without-guard") {
		transport.DialContext = (&net.Dialer{}).DialContext
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, transport
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case r.URL.Scheme != "http" && r.URL.Scheme != "https", r.URL.User != nil:
		return netguard.ErrRefused
	}
	return nil
}

func unfetched(u *url.URL, err error) error {
	thing, nothing := "url "+u.Redacted(), "send the address of a file on the public internet"
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return refuse(thing, "leads to an address that is not a public one of the internet", nothing)
	case errors.Is(err, errRedirects):
		return refuse(thing, "is redirected more than 5 times", "send the address where the file really is")
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return refuse(thing, "cannot be fetched: "+err.Error(), "check the address, or attach the file itself with kanban_attach")
}

func tooLarge(most int64) error {
	return refuse("the file", fmt.Sprintf("is larger than %d MiB", most>>20), "leave a link to it in a comment instead")
}

// bounded ends with an error where a file is larger than it may be.
type bounded struct {
	io.ReadCloser
	left int64
	done func()
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, tooLarge(maxFetch)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge(maxFetch)
	}
	return n, err
}

func (b *bounded) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// nameOf is the name that the server gives the file, else the last part of its address.
func nameOf(r *http.Response) string {
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		return params["filename"]
	}
	name := path.Base(r.Request.URL.Path)
	if name == "." || name == "/" {
		return "file"
	}
	return name
}
