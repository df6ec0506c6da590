package provider

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var picture = Image{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n not much of one")}

// shown is a conversation with a picture.
func shown() Request {
	return Request{Messages: []Message{
		{Role: "user", Content: `what is <this> "thing"?`, Images: []Image{picture}},
		{Role: "assistant", Content: "a picture"},
		{Role: "user", Images: []Image{picture, {MediaType: "image/gif", Data: []byte("GIF89a")}}},
	}}
}

// What EncodeContent gives is what a request carries, byte for byte, and reading it back gives the same bytes again.
func TestAPictureIsStoredInTheBytesThatAreSent(t *testing.T) {
	for _, m := range shown().Messages {
		if len(m.Images) == 0 {
			continue
		}
		stored := EncodeContent(m.Content, m.Images)
		text, images, ok := DecodeContent(stored)
		if !ok || text != m.Content || len(images) != len(m.Images) || images[0].MediaType != "image/png" {
			t.Fatalf("%v %q %v", ok, text, images)
		}
		body, err := chatAPI{}.encode("m", Request{Messages: []Message{{Role: "user", Content: text, Images: images}}}, manner{})
		if err != nil || !strings.Contains(string(body), `"content":`+stored+`}`) || !json.Valid(body) {
			t.Errorf("%v %s\n%s", err, body, stored)
		}
	}
	whole := EncodeContent("t", []Image{picture})
	for _, broken := range []string{
		"", "plain", `[{"type":"text","text":"t"}]`, `[{"type":"image_url","image_url":{"url":"https://example.org/x.png"}}]`, whole[:len(whole)-1], whole + "]",
		contentMark, `[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"text","text":oops}]`,
	} {
		if text, images, ok := DecodeContent(broken); ok {
			t.Errorf("%q is read as %q, %v", broken, text, images)
		}
	}
}

func TestAPictureGoesOverTheMessagesAPI(t *testing.T) {
	request := shown()
	request.Messages[0].Images = append(request.Messages[0].Images, Image{URL: "https://example.org/x.png"})
	raw, err := messagesAPI{ttl: "off"}.encode("m", request, manner{})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Messages []map[string]any }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	type m = map[string]any
	_, data, _ := picture.inline()
	want := []any{
		m{"type": "image", "source": m{"type": "base64", "media_type": "image/png", "data": data}},
		m{"type": "image", "source": m{"type": "url", "url": "https://example.org/x.png"}},
		m{"type": "text", "text": `what is <this> "thing"?`},
	}
	if diff := cmp.Diff(want, got.Messages[0]["content"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(got.Messages[2]["content"].([]any)); n != 2 {
		t.Errorf("%d pieces of two pictures without a text", n)
	}
}

// A model that takes no pictures is told that there is one, the person hears it, and it is asked so from then on, also by the next
// process; a picture that only this request should not have had costs the next one nothing.
func TestARefusedPictureBecomesItsCaption(t *testing.T) {
	refused := has(`data:image`)
	for _, c := range []struct {
		name, answer string
		status       int
		lasting      bool
	}{
		{"openai", detail("Invalid content type. image_url is only supported by certain models.", "invalid_request_error", "messages.[0].content.[0].type", ""), 400, true},
		{"deepseek", detail("Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 90", "invalid_request_error", "", ""), 400, true},
		{"llama.cpp", detail("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "server_error", "", ""), 500, true},
		{"openrouter", `{"error":{"message":"No endpoints found that support image input","code":404}}`, 404, true},
		{"vllm", `{"object":"error","message":"At most 0 image(s) may be provided in one request.","type":"BadRequestError","code":400}`, 400, true},
		{"ollama", `{"error":"this model does not support images"}`, 400, true},
		{"anthropic, too large", `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.image.source.base64: image exceeds 5 MB maximum"}}`, 400, false},
		{"a broken one", detail("Could not process image", "invalid_request_error", "", ""), 400, false},
		{"a proxy", `<html>413 Request Entity Too Large</html>`, 413, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := refusingServer(t, refused, c.status, c.answer)
			home := t.TempDir()
			fresh := func() *client {
				memory := NewMemory(home, nil)
				made, _ := clientOf(t, server, func(o *Options) { o.Learned, o.Remember = memory.Of(server.URL(), "m"), memory.Keep(server.URL(), "m") })
				return made
			}
			told, calls := 0, 2
			sink := func(d Delta) {
				if strings.Contains(d.Notice, "does not take this image") {
					told++
				}
			}
			first := fresh()
			for range 2 {
				if got, err := first.Complete(bounded(t), shown(), sink); err != nil || got.Text != "fine" {
					t.Fatalf("%+v, %v", got, err)
				}
			}
			if _, err := fresh().Complete(bounded(t), shown(), sink); err != nil {
				t.Fatal(err)
			}
			if calls = 6; c.lasting {
				calls = 4
			}
			requests := server.Requests()
			if told != 3 || len(requests) != calls {
				t.Errorf("told %d times in %d calls, want 3 in %d", told, len(requests), calls)
			}
			if last := string(requests[len(requests)-1].Body); !strings.Contains(last, "[image: image/png, 1 kB]") {
				t.Errorf("sent %s", last)
			}
		})
	}
}

// What is refused is asked for again after a while.
func TestARefusalIsNotRememberedForEver(t *testing.T) {
	learned := Learned{Refuses: []string{formImages, paramTemp}, Keywords: []string{"const"}, MaxOutput: 9, RefusedAt: time.Now().Add(-refusalAge + time.Hour)}
	if m, at := mannerOf(learned, time.Now()); fmt.Sprint(m.refuses()) != "[images temperature]" || !m.keywords["const"] || m.maxOutput != 9 || !at.Equal(learned.RefusedAt) {
		t.Errorf("%+v %v", m, at)
	}
	if m, _ := mannerOf(learned, time.Now().Add(2*time.Hour)); len(m.refuses()) != 0 || m.maxOutput != 0 {
		t.Errorf("after %v still %+v", refusalAge, m)
	}
}

func TestCaptionsTellNoSecret(t *testing.T) {
	got := Captioned("look", []Image{
		{URL: "https://user:secret@example.org/a[1].png?sig=secret#secret"},
		{MediaType: "image/png", Data: make([]byte, 2_345_678), From: "https://example.org/b.png?token=secret"},
	})
	if want := "look\n[image: https://example.org/a%5B1%5D.png]\n[image: image/png, 2.3 MB, from https://example.org/b.png]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
