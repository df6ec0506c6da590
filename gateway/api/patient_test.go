package api

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A download holds its board open; one who stops reading must not hold it for ever.
func TestAClientThatDoesNotReadLetsGoOfItsBoard(t *testing.T) {
	h, _ := plain(func(o *Options) { o.Boards, o.Dispatch, o.Patience = newShelf(t), &bell{}, 50*time.Millisecond })
	ask(h, "POST", "/api/boards", `{"slug":"plans"}`)
	task, _ := decoded(t, ask(h, "POST", "/api/boards/plans/tasks", `{"title":"one"}`))["task"].(map[string]any)
	card, _ := task["id"].(string)
	content := strings.Repeat("x", 20<<20) // more than the sockets of both sides hold
	if w := ask(h, "POST", "/api/boards/plans/tasks/"+card+"/attachments?filename=a.bin", content, header("Content-Type", "application/octet-stream")); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/boards/plans/attachments/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testKey+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-bounded(t).Done():
		t.Fatal("the download waits for a client that does not read")
	}
}
