package api

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"gatewayd/kanban"
)

func (s *shelf) Remove(ctx context.Context, slug kanban.Slug, forGood bool) (kanban.Removed, error) {
	hands := kanban.Hands{Open: s.Acquire}
	if forGood {
		return s.Root.Delete(ctx, slug, hands)
	}
	return s.Root.Archive(ctx, slug, hands)
}

// shelved gives a handler with one board of one card.
func shelved(t *testing.T) (h http.Handler, card string) {
	t.Helper()
	h, _ = plain(func(o *Options) { o.Boards, o.Dispatch = newShelf(t), &bell{} })
	if w := ask(h, "POST", "/api/boards", `{"slug":"plans"}`); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := ask(h, "POST", "/api/boards/plans/tasks", `{"title":"one"}`)
	task, _ := decoded(t, w)["task"].(map[string]any)
	card, _ = task["id"].(string)
	return h, card
}

func form(t *testing.T, filename, content string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("uploaded_by", "ann")
	part, err := w.CreateFormFile("file", filename)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(content))
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

func TestAFileGoesUpAndComesDownAndCannotRunInThePage(t *testing.T) {
	h, card := shelved(t)
	files := "/api/boards/plans/tasks/" + card + "/attachments"
	body, kind := form(t, `..\evil".html`, "<script>alert(1)</script>")
	w := ask(h, "POST", files, body, header("Content-Type", kind))
	a, _ := decoded(t, w)["attachment"].(map[string]any)
	if w.Code != http.StatusCreated || a["uploaded_by"] != "ann" || a["size"] != 25.0 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w = ask(h, "POST", files+"?filename=page.html", "<b>raw</b>", header("Content-Type", "text/html"))
	if w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	raw, _ := decoded(t, w)["attachment"].(map[string]any)
	w = ask(h, "GET", fmt.Sprintf("/api/boards/plans/attachments/%v", raw["id"]), "")
	head := w.Header()
	if w.Code != http.StatusOK || w.Body.String() != "<b>raw</b>" || head.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(head.Get("Content-Disposition"), "attachment; filename=") || head.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(head.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d %q %v", w.Code, w.Body, head)
	}
	if list, _ := decoded(t, ask(h, "GET", files, ""))["attachments"].([]any); len(list) != 2 {
		t.Errorf("%v", list)
	}
	one := fmt.Sprintf("/api/boards/plans/attachments/%v", a["id"])
	if w := ask(h, "DELETE", one, ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, ask(h, "GET", one, ""), http.StatusNotFound, "not_found")
}

func TestWhatAnUploadRefuses(t *testing.T) {
	h, card := shelved(t)
	files := "/api/boards/plans/tasks/" + card + "/attachments"
	large := strings.Repeat("x", kanban.MaxAttachment+1)
	body, kind := form(t, "large", large)
	refused(t, ask(h, "POST", files, body, header("Content-Type", kind)), http.StatusRequestEntityTooLarge, "file_too_large")
	refused(t, ask(h, "POST", files+"?filename=x", large), http.StatusRequestEntityTooLarge, "file_too_large")
	refused(t, ask(h, "POST", files+"?filename=x", strings.Repeat("x", kanban.MaxAttachment+formOverhead+1)), http.StatusRequestEntityTooLarge, "file_too_large")
	refused(t, ask(h, "POST", files, "x"), http.StatusBadRequest, "invalid_value")
	refused(t, ask(h, "POST", files+"?filename=..", "x"), http.StatusBadRequest, "invalid_request")
	body, kind = form(t, "cut", "some content")
	refused(t, ask(h, "POST", files, body[:len(body)-60], header("Content-Type", kind)), http.StatusBadRequest, "body_unreadable")
	refused(t, ask(h, "POST", "/api/boards/plans/tasks/t_none/attachments?filename=x", "x"), http.StatusNotFound, "not_found")
	refused(t, ask(h, "GET", "/api/boards/plans/attachments/0", ""), http.StatusBadRequest, "invalid_value")
	if list, _ := decoded(t, ask(h, "GET", files, ""))["attachments"].([]any); len(list) != 0 {
		t.Errorf("refused files are there: %v", list)
	}
}

func TestBoardsMoveOverHTTP(t *testing.T) {
	h, card := shelved(t)
	if w := ask(h, "POST", "/api/boards/plans/switch", ""); decoded(t, w)["current"] != "plans" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := ask(h, "GET", "/api/boards/plans/export", "")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/gzip" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	archive := w.Body.String()
	imported := decoded(t, ask(h, "POST", "/api/boards/import?slug=copy&name=Copy", archive))
	if board, _ := imported["board"].(map[string]any); board["slug"] != "copy" || board["name"] != "Copy" {
		t.Errorf("%v", imported)
	}
	if w := ask(h, "GET", "/api/boards/copy/tasks/"+card, ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, ask(h, "POST", "/api/boards/import", archive[:len(archive)/2]), http.StatusBadRequest, "invalid_request")
	refused(t, ask(h, "GET", "/api/boards/none/export", ""), http.StatusNotFound, "not_found")
	if w := ask(h, "POST", "/api/boards/plans/gc", `{"event_retention_days":0}`); w.Code != http.StatusOK || decoded(t, w)["events"] != 0.0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, ask(h, "POST", "/api/boards/plans/gc", `{"log_retention_days":-1}`), http.StatusBadRequest, "invalid_value")
	refused(t, ask(h, "DELETE", "/api/boards/default", ""), http.StatusForbidden, "denied")
	for slug, action := range map[string]string{"plans": "archived", "copy?delete=true": "deleted"} {
		if w := ask(h, "DELETE", "/api/boards/"+slug, ""); decoded(t, w)["action"] != action {
			t.Errorf("%s: %d %s", slug, w.Code, w.Body)
		}
	}
	answer := decoded(t, ask(h, "GET", "/api/boards?include_archived=true", ""))
	if list, _ := answer["boards"].([]any); len(list) != 1 || answer["current"] != "default" {
		t.Errorf("%v", answer)
	}
}
