package api

import (
	"fmt"
	"net/http"
	"testing"
)

const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// A message to a conversation shows pictures, with a text or without; one that is none is refused by its place and nothing is said.
func TestAMessageToAConversationShowsPictures(t *testing.T) {
	h, chat := plain(nil)
	for _, text := range []string{"", "look"} {
		w := ask(h, http.MethodPost, "/api/sessions/s1/messages", fmt.Sprintf(`{"text":%q,"images":[%q,%q],"wait":true}`, text, onePixel, onePixel))
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if say := chat.last(); say.Text != text || len(say.Images) != 2 || say.Images[1].MediaType != "image/png" {
			t.Errorf("%q with %d pictures is said", say.Text, len(say.Images))
		}
	}
	said := len(chat.said)
	w := ask(h, http.MethodPost, "/api/sessions/s1/messages", fmt.Sprintf(`{"text":"look","images":[%q,"data:image/png;base64,aGVsbG8="]}`, onePixel))
	if inner := refused(t, w, http.StatusBadRequest, codeImage); inner["param"] != "images[1]" {
		t.Errorf("%v", inner)
	}
	if len(chat.said) != said {
		t.Error("a message with a wrong picture was said")
	}
}
