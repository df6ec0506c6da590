package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"gatewayd/gateway"
)

// A client that announces a body and never sends it must not hold a connection for ever, with or without the key.
func TestABodyThatNeverArrivesIsGivenUp(t *testing.T) {
	h, chat := plain(func(o *Options) { o.BodyTime, o.Boards = 50*time.Millisecond, newShelf(t) })
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for _, c := range []struct {
		path, key, more string
		status          int
	}{
		{"/v1/chat/completions", testKey, "Content-Length: 500\r\n", http.StatusRequestTimeout},
		{"/v1/chat/completions", testKey, "Transfer-Encoding: chunked\r\n", http.StatusRequestTimeout},
		{"/api/boards", testKey, "Content-Length: 500\r\n", http.StatusRequestTimeout},
		{"/v1/chat/completions", "wrong", "Content-Length: 500\r\n", http.StatusUnauthorized},
		{"/nowhere", testKey, "Content-Length: 500\r\n", http.StatusNotFound},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n%s\r\n1\r\n", c.path, c.key, c.more)
		reader := bufio.NewReader(conn)
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != c.status {
			t.Errorf("%+v: %+v %v", c, answer, err)
			_ = conn.Close()
			continue
		}
		if _, err := io.Copy(io.Discard, reader); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%+v: the connection is kept: %v", c, err)
		}
		_ = conn.Close()
	}
	if len(chat.said) != 0 {
		t.Error("a part of a body was taken for the whole")
	}
}

func TestABodysTimeIsNotItsTurns(t *testing.T) {
	h, chat := plain(func(o *Options) { o.BodyTime = 200 * time.Millisecond })
	chat.say = func(ctx context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		select {
		case <-ctx.Done():
			return gateway.Result{}, ctx.Err()
		case <-time.After(500 * time.Millisecond): // the turn is longer than the body's time
			return answered("fine", sink), nil
		}
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for range 2 { // the second one on the connection of the first
		w := (&house{Server: server}).send(t, bounded(t), hello)
		if w.StatusCode != http.StatusOK {
			t.Errorf("a long turn ended with %d", w.StatusCode)
		}
	}
}
