package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/internal/netguard"
)

const (
	maxParts  = 1000
	fetchTime = 20 * time.Second // of one image: its sender waits for its answer meanwhile
)

// Codes of refused parts.
const (
	codePart  = "invalid_content_part"
	codeType  = "unsupported_content_type"
	codeImage = "invalid_image_url"
)

// takeContent reads a string or a list of parts of text.
func takeContent(o object, content *string) error { return takeParts(o, content, nil) }

// takeParts reads a string or a list of parts: of text, and of images where there is a place for them. Chat completions and responses name
// the same parts differently; both are read. Nothing is dropped in silence: a part that cannot be read is an error. An image that is told by
// an http or https URL has no bytes yet; see server.fetch.
func takeParts(o object, content *string, images *[]provider.Image) error {
	raw := o.fields["content"]
	if !o.has("content") || jsonKind(raw) == "a string" {
		return take(o, "content", content)
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return errType(o.name("content"), "a string or a list of parts", raw)
	}
	if len(parts) > maxParts {
		return errField(o.name("content"), "has %d parts; %d is the most", len(parts), maxParts)
	}
	var texts []string
	for i, raw := range parts {
		part := object{path: fmt.Sprintf("%s[%d]", o.name("content"), i)}
		if json.Unmarshal(raw, &part.fields) != nil || part.fields == nil {
			return errType(part.path, "an object", raw)
		}
		if err := takePart(part, &texts, images); err != nil {
			return err
		}
	}
	*content = strings.Join(texts, "\n")
	return nil
}

func takePart(part object, texts *[]string, images *[]provider.Image) error {
	var kind string
	if err := take(part, "type", &kind); err != nil {
		return err
	}
	switch {
	case kind == "text", kind == "input_text", kind == "output_text":
		var text string
		if !part.has("text") {
			return errCode(codePart, part.name("text"), "is missing")
		}
		err := take(part, "text", &text)
		*texts = append(*texts, text)
		return err
	case kind != "image_url" && kind != "input_image":
		return errCode(codeType, part.name("type"), "text and images are read here, not %.50q", kind)
	case images == nil:
		return errCode(codeType, part.name("type"), "an image is read from a user only")
	}
	image, err := takeImage(part)
	if err != nil {
		return err
	}
	*images = append(*images, image)
	if len(*images) > provider.MaxImages {
		return errCode(codePart, part.path, "is one image too many; %d are the most in a message", provider.MaxImages)
	}
	return nil
}

// takeImage reads `image_url`, which is an object with a url or the URL itself.
func takeImage(part object) (provider.Image, error) {
	place, address := part.name("image_url"), ""
	switch raw := part.fields["image_url"]; {
	case !part.has("image_url"):
		return provider.Image{}, errCode(codePart, place, "is missing; files are not kept here, so an image is told by its URL")
	case jsonKind(raw) == "an object":
		inner, err := part.sub("image_url")
		if err != nil {
			return provider.Image{}, err
		}
		place = inner.name("url")
		if err := take(inner, "url", &address); err != nil {
			return provider.Image{}, err
		}
	default:
		if err := take(part, "image_url", &address); err != nil {
			return provider.Image{}, err
		}
	}
	return imageAt(place, address)
}

// imageAt is an image by its URL: a data: URL with its bytes, or where they are to be fetched.
func imageAt(place, address string) (provider.Image, error) {
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		return inlineImage(place, rest)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return provider.Image{}, errCode(codeImage, place, "must be a data: URL with base64, or an http or https URL")
	}
	return provider.Image{URL: u.String()}, nil
}

func inlineImage(place, rest string) (provider.Image, error) {
	_, text, ok := strings.Cut(rest, ";base64,")
	if !ok {
		return provider.Image{}, errCode(codeImage, place, "must be like data:image/png;base64,…")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return provider.Image{}, errCode(codeImage, place, "holds no base64: %v", err)
	}
	return pictureOf(place, "", data)
}

// pictureOf judges the bytes of an image. What their sender says of them does not count.
func pictureOf(place, which string, data []byte) (provider.Image, error) {
	kind := provider.SniffImage(data)
	switch {
	case kind == "":
		return provider.Image{}, errCode(codeImage, place, "%sis neither PNG nor JPEG, GIF or WebP", which)
	case len(data) > provider.MaxImage:
		return provider.Image{}, errCode(codeImage, place, "%shas more bytes than the %d that an image may have", which, provider.MaxImage)
	}
	return provider.Image{MediaType: kind, Data: data}, nil
}

func errCode(code, param, format string, args ...any) *refusal {
	e := errField(param, format, args...)
	e.code = code
	return e
}

// fetch gets the images of the message that is answered which are told by an address: before the message is accepted, through the guard
// that reaches public hosts only, bounded in size and time. Those of a history are not fetched; the model is told that there were some.
func (s *server) fetch(ctx context.Context, images []provider.Image) error {
	for i, image := range images {
		if len(image.Data) > 0 {
			continue
		}
		got, err := s.fetchOne(ctx, image.URL)
		if err != nil {
			return err
		}
		images[i] = got
	}
	return nil
}

func (s *server) fetchOne(ctx context.Context, address string) (provider.Image, error) {
	const place = "messages"
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return provider.Image{}, errCode(codeImage, place, "has an image whose address is none")
	}
	host := request.URL.Hostname()
	response, err := s.Outside.Client(fetchTime).Do(request)
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return provider.Image{}, errCode(codeImage, place, "has an image at %.100q, which is no public host; send its bytes in a data: URL", host)
	case errors.Is(err, netguard.ErrRedirect):
		return provider.Image{}, errCode(codeImage, place, "has an image at %.100q, which points elsewhere; give the address that it leads to", host)
	case err != nil:
		return provider.Image{}, errCode(codeImage, place, "has an image at %.100q, which did not answer; send its bytes in a data: URL", host)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return provider.Image{}, errCode(codeImage, place, "has an image at %.100q, which answered %d", host, response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, provider.MaxImage+1))
	if err != nil {
		return provider.Image{}, errCode(codeImage, place, "has an image at %.100q, which broke off", host)
	}
	got, err := pictureOf(place, "the image at "+host+" ", data)
	got.From = address
	return got, err
}

// fetched is the caption of an image that was fetched.
var fetched = regexp.MustCompile(`\[image: [^,\]]+, [^,\]]+, from ([^\]]+)\]`)

// asTold gives a stored text as its sender tells it again: of an image that was fetched he knows the address only.
func asTold(text string) string {
	if !strings.Contains(text, "[image: ") {
		return text
	}
	return fetched.ReplaceAllString(text, "[image: $1]")
}
