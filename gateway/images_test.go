package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

func png(n int) provider.Image {
	return provider.Image{Data: append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{7}, n)...)}
}

// A picture is stored in the bytes that are sent, so that the next process sends the same again; people read and find a caption.
func TestAPictureIsSentAgainInTheSameBytesAfterARestart(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "a picture"}, fakellm.Text{Text: "still"}, fakellm.Text{Text: "both"})
	h.say(Say{Text: "what is this?", Images: []provider.Image{png(33_900)}})
	row := h.rows("s1")[0]
	if row.Content != "what is this?\n[image: image/png, 34 kB]" {
		t.Errorf("stored as %q", row.Content)
	}
	first := sentMessages(t, h.llm.Requests()[0])
	if content := `"content":` + row.Wire + `}`; !strings.Contains(string(first[1]), content) {
		t.Errorf("what was sent is not what is stored: %.200s", first[1])
	}
	h.restart(nil)
	h.say(Say{Text: "", Images: []provider.Image{png(10), png(20)}})
	h.restart(nil)
	h.say(Say{Text: "and?"})
	requests := h.llm.Requests()
	for n := 1; n < len(requests); n++ {
		before, now := sentMessages(t, requests[n-1]), sentMessages(t, requests[n])
		for i := range before {
			if !bytes.Equal(before[i], now[i]) {
				t.Errorf("request %d, message %d is %.150s, was %.150s", n, i, now[i], before[i])
			}
		}
	}
	if found, err := h.store.Search(t.Context(), sessiondb.Query{Text: "image"}); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}

// A posted picture lies in the inbox until its turn, and goes with /retry too: it is in the row's wire.
func TestAPostedPictureIsSent(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "a picture"})
	if _, err := h.Post(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "look", Images: []provider.Image{png(1)}, Detached: true}); err != nil {
		t.Fatal(err)
	}
	until(t, h, "the end of the turn", func(s Status) bool { return s.Turns == 1 })
	if sent := sentMessages(t, h.llm.Requests()[0]); !strings.Contains(string(sent[1]), `"url":"data:image/png;base64,`) {
		t.Errorf("sent %s", sent[1])
	}
}

func TestAPictureThatCannotBeSentIsRefusedAndNothingIsStored(t *testing.T) {
	h := newHouse(t, nil)
	for want, images := range map[string][]provider.Image{
		"image 2 is neither":        {png(1), {Data: []byte("<svg/>")}},
		"image 1 has no bytes":      {{URL: "https://example.org/x.png"}},
		"has 5242889 bytes":         {png(provider.MaxImage + 1)},
		"shows 21 images":           make([]provider.Image, 21),
		"shows more than 20971520 ": {png(5e6), png(5e6), png(5e6), png(5e6), png(5e6)},
	} {
		_, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "look", Images: images}, nil)
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if _, err := h.store.Session(t.Context(), "s1"); !errors.Is(err, sessiondb.ErrSessionMissing) {
		t.Errorf("a session is left: %v", err)
	}
}

// More pictures than a request takes become captions all at once, as a function of the rows: the prefix breaks there, by name, and not
// again with the next message.
func TestOldPicturesBecomeCaptionsAllAtOnce(t *testing.T) {
	var rows []sessiondb.Message
	shows := func(id int64, n int) {
		say, err := Say{Text: fmt.Sprint("look ", id), Images: many(n)}.illustrated()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, sessiondb.Message{ID: id, Role: roleUser, Content: say.Text, Wire: say.Wire}, sessiondb.Message{ID: id + 1, Role: roleAssistant, Content: "seen"})
	}
	count := func() (list []int) {
		for _, m := range Replay(rows) {
			if m.Role == roleUser {
				list = append(list, len(m.Images))
			}
		}
		return list
	}
	shows(1, 15)
	shows(3, 5)
	if got := fmt.Sprint(count()); got != "[15 5]" {
		t.Error(got)
	}
	last := describe(provider.Request{Messages: Replay(rows)}, nil)
	last.row = 4
	shows(5, 1)
	if got := fmt.Sprint(count()); got != "[0 0 1]" {
		t.Error(got)
	}
	if got := Replay(rows)[0].Content; strings.Count(got, "[image: image/png, 1 kB]") != 15 || !strings.HasPrefix(got, "look 1\n") {
		t.Error(got)
	}
	if p := last.beside(describe(provider.Request{Messages: Replay(rows)}, nil), rows); !p.Broken || p.Cause != CauseImages || p.Row != 1 {
		t.Errorf("%+v", p)
	}
	shows(7, 2)
	if got := fmt.Sprint(count()); got != "[0 0 1 2]" {
		t.Error(got)
	}
}

func many(n int) (images []provider.Image) {
	for i := range n {
		images = append(images, png(i+1))
	}
	return images
}

// What a client tells of pictures in a history is stored where their bytes are told.
func TestPicturesOfAHistory(t *testing.T) {
	rows := historyRows([]provider.Message{{Role: roleUser, Content: "look", Images: []provider.Image{
		{MediaType: "image/png", Data: png(1).Data}, {URL: "https://example.org/x.png?secret"},
	}}})
	raw, err := json.Marshal(rows[0].Content)
	if err != nil || string(raw) != `"look\n[image: image/png, 1 kB]\n[image: https://example.org/x.png]"` {
		t.Errorf("%s %v", raw, err)
	}
	if text, images, ok := provider.DecodeContent(rows[0].Wire); !ok || text != "look" || len(images) != 1 {
		t.Errorf("%s", rows[0].Wire)
	}
}
