package gateway

import (
	"cmp"
	"fmt"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Bounds of pictures.
const (
	picturesAtOnce = 20 << 20           // bytes of all that one message shows: with their encoding they have to fit into a row
	picturesSent   = 24 << 20           // bytes of URLs in one request; more than this no server takes
	picturesNumber = provider.MaxImages // in one request
)

// illustrated puts pictures into what is stored of a message: a caption for each into the text, and into the wire the bytes that are sent.
func (s Say) illustrated() (Say, error) {
	if len(s.Images) == 0 {
		return s, nil
	}
	if len(s.Images) > provider.MaxImages {
		return s, errImage("the message", "shows %d images; %d are the most", len(s.Images), provider.MaxImages)
	}
	total := 0
	for i, image := range s.Images {
		thing := fmt.Sprintf("image %d", i+1)
		switch kind := provider.SniffImage(image.Data); {
		case len(image.Data) == 0:
			return s, errImage(thing, "has no bytes")
		case kind == "":
			return s, errImage(thing, "is neither PNG nor JPEG, GIF or WebP")
		case len(image.Data) > provider.MaxImage:
			return s, errImage(thing, "has %d bytes; %d are the most", len(image.Data), provider.MaxImage)
		default:
			s.Images[i].MediaType = kind
		}
		if total += len(image.Data); total > picturesAtOnce {
			return s, errImage("the message", "shows more than %d bytes of images", picturesAtOnce)
		}
	}
	s.Wire = provider.EncodeContent(cmp.Or(s.Wire, s.Text), s.Images)
	s.Text, s.Images = provider.Captioned(s.Text, s.Images), nil
	return s, nil
}

func errImage(thing, format string, args ...any) *problem.Error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: fmt.Sprintf(format, args...), Fate: "the message was not stored", Remedy: "send it smaller, or without"}
}

// carried is what goes over the wire for a person's row: a text, and the pictures in front of it.
func carried(row sessiondb.Message) (string, []provider.Image) {
	if text, images, ok := provider.DecodeContent(row.Wire); ok {
		if mutation.On("resumed-pictures-are-doubled") {
			images = append(images, images...)
		}
		return text, images
	}
	return sent(row), nil
}

// show counts what pictures take of a request. When they are more than servers take, all before this message become their captions:
// so it changes the prefix once in a while and not with each message. It depends on the rows before it alone.
func (b *messages) show(images []provider.Image) {
	size := 0
	for _, image := range images {
		size += len(image.URL)
	}
	if b.bytes+size > picturesSent || b.pictures+len(images) > picturesNumber {
		for i := range b.out {
			b.out[i] = b.out[i].Captioned()
		}
		b.bytes, b.pictures = 0, 0
	}
	b.bytes, b.pictures = b.bytes+size, b.pictures+len(images)
}

// foreignImages keeps the pictures of a history whose bytes are told; of the others there is a caption.
func foreignImages(row *sessiondb.NewMessage, m provider.Message) {
	if len(m.Images) == 0 {
		return
	}
	row.Content = m.Captioned().Content
	var known []provider.Image
	for _, image := range m.Images {
		if len(image.Data) > 0 {
			known = append(known, image)
		}
	}
	if len(known) > 0 {
		row.Wire = provider.EncodeContent(m.Content, known)
	}
}

// lost reports that a row's pictures became captions in its message.
func lost(row sessiondb.Message, m provider.Message) bool {
	_, images := carried(row)
	return len(images) > len(m.Images)
}
