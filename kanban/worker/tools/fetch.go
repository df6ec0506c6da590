package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"time"

	"gatewayd/internal/netguard"
)

// Bounds of a file that is fetched for a card.
const (
	maxFetch  = 25 << 20 // the most that an attachment may have
	fetchTime = 60 * time.Second
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
	if f == nil {
		f = &Fetcher{}
	}
	most := f.MaxBytes
	if most <= 0 {
		most = maxFetch
	}
	found, err := f.Guard.Fetch(ctx, address, netguard.Bounds{Bytes: most, Time: fetchTime})
	if err != nil {
		return nil, unfetched(address, most, err)
	}
	return &Fetched{Filename: nameOf(found), ContentType: found.Header.Get("Content-Type"), Body: explained{found.Body, most}}, nil
}

// unfetched says what is wrong with an address, without a password that it may hold.
func unfetched(address string, most int64, err error) error {
	thing, nothing := "url", "send the address of a file on the public internet"
	if u, bad := url.Parse(address); bad == nil {
		thing += " " + u.Redacted()
	}
	status, answered := errors.AsType[*netguard.StatusError](err)
	switch {
	case answered:
		return refuse(thing, "was answered with "+status.Status, "send an address that can be read without signing in")
	case errors.Is(err, netguard.ErrAddress):
		return refuse(thing, "must be the http or https address of one file, without a user", "send one like https://example.com/a.pdf")
	case errors.Is(err, netguard.ErrRefused):
		return refuse(thing, "leads to an address that is not a public one of the internet", nothing)
	case errors.Is(err, netguard.ErrRedirects):
		return refuse(thing, fmt.Sprintf("is redirected more than %d times", netguard.Redirects), "send the address where the file really is")
	case errors.Is(err, netguard.ErrTooLarge):
		return tooLarge(most)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return refuse(thing, "cannot be fetched: "+err.Error(), "check the address, or attach the file itself with kanban_attach")
}

func tooLarge(most int64) error {
	return refuse("the file", fmt.Sprintf("is larger than %d MiB", most>>20), "leave a link to it in a comment instead")
}

// explained is a body whose end by its bound is a problem as people read it.
type explained struct {
	io.ReadCloser
	most int64
}

func (e explained) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if errors.Is(err, netguard.ErrTooLarge) {
		err = tooLarge(e.most)
	}
	return n, err
}

// nameOf is the name that the server gives the file, else the last part of its address.
func nameOf(f *netguard.Fetched) string {
	if _, params, err := mime.ParseMediaType(f.Header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		return params["filename"]
	}
	name := path.Base(f.URL.Path)
	if name == "." || name == "/" {
		return "file"
	}
	return name
}
