package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Image is a picture in front of a message's text: its bytes, or a URL. A data: URL is its bytes, too; any other the server fetches
// itself, which not every server does.
type Image struct {
	MediaType string // image/png, image/jpeg, image/gif or image/webp
	Data      []byte // nil where URL has them
	URL       string
	From      string // where it was fetched, for people; empty: it was sent
}

// Bounds of images. Five megabytes are the most that servers agree on.
const (
	MaxImage    = 5 << 20 // bytes of one
	MaxImages   = 20      // in one message
	ImageTokens = 1600    // what one costs at most, whatever its size: servers shrink it first
)

// SniffImage tells a picture by its first bytes; empty: it is none that servers read.
func SniffImage(data []byte) string {
	kind := http.DetectContentType(data)
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return kind
	}
	return ""
}

const (
	dataScheme = "data:"
	dataBase64 = ";base64,"
)

// url is how the picture goes over OpenAI's wire.
func (i Image) url() string {
	if i.URL != "" {
		return i.URL
	}
	return dataScheme + i.MediaType + dataBase64 + base64.StdEncoding.EncodeToString(i.Data)
}

// inline gives the media type and the base64 of a picture whose bytes are known.
func (i Image) inline() (mediaType, text string, ok bool) {
	if i.URL == "" {
		return i.MediaType, base64.StdEncoding.EncodeToString(i.Data), true
	}
	rest, ok := strings.CutPrefix(i.URL, dataScheme)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, dataBase64)
}

// Caption stands for the picture where there is only text. It has no query of a URL, which may be a secret.
func (i Image) Caption() string {
	from := publicAddress(i.From)
	kind, text, ok := i.inline()
	switch {
	case !ok:
		return "[image: " + publicAddress(i.URL) + "]"
	case from != "":
		from = ", from " + from
	}
	return fmt.Sprintf("[image: %s, %s%s]", kind, sizeText(base64.StdEncoding.DecodedLen(len(text))), from)
}

func publicAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return strings.NewReplacer("]", "%5D", "[", "%5B").Replace(u.String())
}

func sizeText(n int) string {
	if n < 1_000_000 {
		return fmt.Sprintf("%d kB", (n+999)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Captioned is a text with what stands for its pictures.
func Captioned(text string, images []Image) string {
	var b strings.Builder
	b.WriteString(text)
	for _, i := range images {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(i.Caption())
	}
	return b.String()
}

// Captioned is the message without its pictures.
func (m Message) Captioned() Message {
	m.Content, m.Images = Captioned(m.Content, m.Images), nil
	return m
}

// Pieces of a content with pictures.
const (
	pictureBegin = `{"type":"image_url","image_url":{"url":"`
	pictureEnd   = `"}}`
	textBegin    = `{"type":"text","text":`
	contentMark  = `[` + pictureBegin + dataScheme
)

// EncodeContent gives the content of a message with pictures, in OpenAI's form and in the very bytes that are sent: pictures first. They
// have to be known by their bytes.
func EncodeContent(text string, images []Image) string {
	var b body
	b.content(text, images)
	return b.String()
}

// DecodeContent reads what EncodeContent gave; ok is false for any other text. The pictures' URLs share the memory of what was read.
func DecodeContent(content string) (text string, images []Image, ok bool) {
	if !strings.HasPrefix(content, contentMark) || !strings.HasSuffix(content, "]") {
		return "", nil, false
	}
	rest := content[1:]
	for {
		after, ok := strings.CutPrefix(rest, pictureBegin)
		if !ok {
			break
		}
		address, after, ok := strings.Cut(after, pictureEnd)
		kind, _, inline := Image{URL: address}.inline()
		if !ok || !inline || strings.ContainsAny(kind, `"\`) {
			return "", nil, false
		}
		images = append(images, Image{MediaType: kind, URL: address})
		if rest = strings.TrimPrefix(after, ","); rest == "]" {
			return "", images, true
		}
	}
	after, begins := strings.CutPrefix(rest, textBegin)
	quoted, ends := strings.CutSuffix(after, "}]")
	if !begins || !ends || json.Unmarshal([]byte(quoted), &text) != nil {
		return "", nil, false
	}
	return text, images, true
}

// content writes pictures and a text.
func (b *body) content(text string, images []Image) {
	b.WriteByte('[')
	for i, image := range images {
		b.comma(i)
		b.WriteString(pictureBegin)
		address := image.url()
		if strings.ContainsAny(address, `"\`) || strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r > '~' }) {
			b.fail(fmt.Errorf("the URL of image %d is none", i))
		}
		b.WriteString(address)
		b.WriteString(pictureEnd)
	}
	if text != "" {
		b.comma(len(images))
		b.WriteString(textBegin)
		b.text(text)
		b.WriteByte('}')
	}
	b.WriteByte(']')
}
