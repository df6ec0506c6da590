package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// sse writes server-sent events. Every write has a deadline of its own and is flushed; the first error ends all writing and stays
// in err.
type sse struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // for a client that does not read
	open     bool          // the headers are sent
	err      error
}

func (s *server) newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, control: http.NewResponseController(w), patience: s.Patience}
}

// start sends the headers, once, and reports whether this was the time.
func (o *sse) start() bool {
	if o.open {
		return false
	}
	o.open = true
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	o.w.WriteHeader(http.StatusOK)
	return true
}

// send writes one event; without a name it is a plain one.
func (o *sse) send(name string, body any) { o.sendAt("", name, body) }

// sendAt is send with an id, by which a client that comes back says how far it was.
func (o *sse) sendAt(id, name string, body any) {
	frame, err := frameOf(id, name, body)
	if err != nil {
		o.err = err
		return
	}
	o.sendFrame(frame)
}

// sendFrame sends an event that was written before.
func (o *sse) sendFrame(frame []byte) {
	o.start()
	o.write(frame)
}

// frameOf is an event as it is sent. Without an id or a name it has none.
func frameOf(id, name string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes(), nil
}

// comment keeps the connection alive and is no event.
func (o *sse) comment(text string) {
	o.start()
	o.write([]byte(": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\n\n"))
}

// write bounds the time a client may take to read, so that one which stands still is found out and does not keep its turn.
func (o *sse) write(data []byte) {
	if o.err != nil {
		return
	}
	_ = o.control.SetWriteDeadline(time.Now().Add(o.patience))
	if _, o.err = io.Copy(o.w, bytes.NewReader(data)); o.err == nil {
		if err := o.control.Flush(); err != nil {
			o.err = err
		}
	}
}
