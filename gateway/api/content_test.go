package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/netguard"
)

var (
	pngBytes = "\x89PNG\r\n\x1a\n and more"
	pngURL   = "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString([]byte(pngBytes)) // its sender is wrong about the type
)

func showing(parts ...string) string {
	return `{"messages":[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]}`
}

func imagePart(address string) string {
	raw, _ := json.Marshal(map[string]any{"type": "image_url", "image_url": map[string]any{"url": address, "detail": "low"}})
	return string(raw)
}

// Both spellings are read, the bytes decide what an image is, and an image alone is a message.
func TestAnImageIsReadInBothSpellings(t *testing.T) {
	h, chat := plain(nil)
	for _, part := range []string{imagePart(pngURL), `{"type":"input_image","image_url":"` + pngURL + `"}`, `{"type":"image_url","image_url":"` + pngURL + `"}`} {
		if w := ask(h, "POST", "/v1/chat/completions", showing(part, `{"type":"text","text":"what?"}`)); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		said := chat.last()
		if said.Text != "what?" || len(said.Images) != 1 || said.Images[0].MediaType != "image/png" || string(said.Images[0].Data) != pngBytes {
			t.Errorf("said %+v", said)
		}
	}
	if w := ask(h, "POST", "/v1/chat/completions", showing(imagePart(pngURL))); w.Code != http.StatusOK || len(chat.last().Images) != 1 {
		t.Errorf("an image without a text: %d %s", w.Code, w.Body)
	}
}

func TestWhatIsNoImageIsRefusedByName(t *testing.T) {
	h, chat := plain(nil)
	large := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(pngBytes+strings.Repeat("x", provider.MaxImage)))
	const place = "messages[0].content[0]."
	for body, want := range map[string][2]string{
		showing(`{"type":"image_url"}`):                                                                        {codePart, place + "image_url"},
		showing(`{"type":"input_image","file_id":"f"}`):                                                        {codePart, place + "image_url"},
		showing(`{"type":"image_url","image_url":{"url":7}}`):                                                  {"invalid_type", place + "image_url.url"},
		showing(`{"type":"image_url","image_url":[]}`):                                                         {"invalid_type", place + "image_url"},
		showing(imagePart("")):                                                                                 {codeImage, place + "image_url.url"},
		showing(imagePart("ftp://example.org/x.png")):                                                          {codeImage, place + "image_url.url"},
		showing(imagePart("file:///etc/passwd")):                                                               {codeImage, place + "image_url.url"},
		showing(imagePart("data:image/png,plain")):                                                             {codeImage, place + "image_url.url"},
		showing(imagePart("data:image/png;base64,%%")):                                                         {codeImage, place + "image_url.url"},
		showing(imagePart("data:image/png;base64,aGVsbG8=")):                                                   {codeImage, place + "image_url.url"},
		showing(imagePart(large)):                                                                              {codeImage, place + "image_url.url"},
		showing(`{"type":"input_audio","input_audio":{}}`):                                                     {codeType, place + "type"},
		showing(`{"type":"file","file":{}}`):                                                                   {codeType, place + "type"},
		showing(strings.Repeat(imagePart(pngURL)+",", 20) + imagePart(pngURL)):                                 {codePart, "messages[0].content[20]"},
		`{"messages":[{"role":"system","content":[` + imagePart(pngURL) + `]},{"role":"user","content":"x"}]}`: {codeType, place + "type"},
	} {
		w := ask(h, "POST", "/v1/chat/completions", body)
		if inner := refused(t, w, http.StatusBadRequest, want[0]); inner["param"] != want[1] {
			t.Errorf("%.100s: %v; want %s", body, inner, want[1])
		}
	}
	if len(chat.said) != 0 {
		t.Error("a wrong request was heard by the gateway")
	}
}

// An image is fetched before the message is accepted, from public hosts only, and within a bound; the answer says the host and no more.
func TestAnImageIsFetchedThroughTheGuard(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a.png":
			fmt.Fprint(w, pngBytes)
		case "/away":
			http.Redirect(w, r, "/a.png", http.StatusFound)
		case "/large":
			fmt.Fprint(w, pngBytes, strings.Repeat("x", provider.MaxImage))
		case "/page":
			fmt.Fprint(w, "<html>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	h, _ := plain(nil)
	inner := refused(t, ask(h, "POST", "/v1/chat/completions", showing(imagePart(web.URL+"/a.png?secret"))), http.StatusBadRequest, codeImage)
	if message := fmt.Sprint(inner["message"]); !strings.Contains(message, "no public host") || strings.Contains(message, "secret") {
		t.Error(message)
	}
	h, chat := plain(func(o *Options) { o.Outside = netguard.Guard{AllowPrivate: true} })
	for path, want := range map[string]string{"/away": "points elsewhere", "/large": "has more bytes than", "/page": "neither PNG", "/missing": "answered 404"} {
		inner := refused(t, ask(h, "POST", "/v1/chat/completions", showing(imagePart(web.URL+path))), http.StatusBadRequest, codeImage)
		if message := fmt.Sprint(inner["message"]); !strings.Contains(message, want) {
			t.Errorf("%s: %s", path, message)
		}
	}
	w := ask(h, "POST", "/v1/chat/completions", showing(imagePart(web.URL+"/a.png?secret")))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	said := chat.last()
	if len(chat.said) != 1 || string(said.Images[0].Data) != pngBytes || said.Images[0].URL != "" {
		t.Errorf("said %+v", said)
	}
	stored, told := provider.Captioned("x", said.Images), provider.Captioned("x", []provider.Image{{URL: web.URL + "/a.png?secret"}})
	if asTold(stored) != told || strings.Contains(stored, "secret") {
		t.Errorf("%q is not told as %q", stored, told)
	}
}

// Whichever door a picture comes through, the model is shown it once, and the row tells of it in words.
func TestAPictureGoesThroughEveryDoorThatTakesAMessage(t *testing.T) {
	item := `[{"role":"user","content":[{"type":"input_text","text":"what is it?"},{"type":"input_image","image_url":"` + pngURL + `"}]}]`
	for path, body := range map[string]string{
		"/v1/responses": `{"input":` + item + `}`, "/v1/runs": `{"session_id":"s1","input":` + item + `}`, "/api/sessions/s1/chat": `{"input":` + item + `}`,
	} {
		h := newHouse(t, nil, fakellm.Text{Text: "a dot"})
		if status, made := h.post(t, http.MethodPost, "/api/sessions", `{"id":"s1"}`); status != http.StatusCreated {
			t.Fatalf("%d %v", status, made)
		}
		w := h.open(t, bounded(t), http.MethodPost, path, body)
		raw, err := io.ReadAll(w.Body)
		if err != nil || w.StatusCode >= 300 {
			t.Errorf("%s: %d %s %v", path, w.StatusCode, raw, err)
			continue
		}
		asked, err := h.llm.Wait(bounded(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(asked[0].Body), "data:image/png;base64,"); n != 1 {
			t.Errorf("%s: the model was shown %d pictures: %s", path, n, asked[0].Body)
		}
	}
}
