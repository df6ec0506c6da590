package tools

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"gatewayd/internal/netguard"
	"gatewayd/kanban"
)

func TestFilesAreAttachedToAWorkersOwnCard(t *testing.T) {
	h := newHouse(t)
	card, d := h.worker(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fetched") }))
	defer server.Close()
	d.Fetch = &Fetcher{Guard: netguard.Guard{AllowPrivate: true}}

	inline := base64.StdEncoding.EncodeToString([]byte("by hand"))
	did(t, d, "kanban_attach", fmt.Sprintf(`{"filename":"../../a.txt","content_base64":"%s\n%s","content_type":"text/plain"}`, inline[:4], inline[4:]))
	did(t, d, "kanban_attach_url", fmt.Sprintf(`{"url":"%s/dir/b.txt?x=1"}`, server.URL))
	did(t, d, "kanban_attach", `{"filename":"empty","content_base64":" "}`)
	list := did(t, d, "kanban_attachments", `{}`)
	found := list["attachments"].([]kanban.Attachment)
	if len(found) != 3 || list["count"] != 3 {
		t.Fatalf("%+v", list)
	}
	for i, want := range []struct{ name, text string }{{"a.txt", "by hand"}, {"b.txt", "fetched"}, {"empty", ""}} {
		text, err := os.ReadFile(found[i].StoredPath)
		if err != nil || string(text) != want.text || found[i].Filename != want.name || found[i].UploadedBy != "coder" {
			t.Errorf("%+v: %q %v", found[i], text, err)
		}
	}
	other := h.make(t, kanban.NewTask{})
	refused(t, d, "kanban_attach", fmt.Sprintf(`{"task_id":%q,"filename":"f","content_base64":"aGk="}`, other), "is not this worker's")
	refused(t, d, "kanban_attach", `{"filename":"f","content_base64":"not base64!"}`, "is no base64")
	refused(t, d, "kanban_attach", `{"filename":"f"}`, "content_base64 of kanban_attach is missing")
	d.Fetch = nil
	refused(t, d, "kanban_attach_url", fmt.Sprintf(`{"url":%q}`, server.URL), "not a public one")
	if got := h.show(t, card); len(got.Attachments) != 3 {
		t.Errorf("%+v", got.Attachments)
	}
	if list := did(t, d, "kanban_attachments", fmt.Sprintf(`{"task_id":%q}`, other)); !strings.Contains(fmt.Sprint(list["attachments"]), "[]") {
		t.Errorf("%v", list)
	}
}
