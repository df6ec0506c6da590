package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Prefix says how a request compares with the one before it in its session. A provider keeps what it has computed for the
// beginning that two requests share; the rest is paid for again. Sizes are bytes of the parts as they are rendered for comparing:
// texts, names and arguments without the wire's own punctuation.
type Prefix struct {
	Bytes  int64  `json:"bytes"`            // of the request before
	Equal  int64  `json:"equal"`            // bytes from the beginning that both share: the place of the first that differs
	Broken bool   `json:"broken,omitempty"` // the request does not begin with all of the one before
	Part   string `json:"part,omitempty"`   // where they differ: model, system prompt, tools, message N
	Row    int64  `json:"row,omitempty"`    // id of the row behind that message; 0: none, or more than one
	Cause  string `json:"cause,omitempty"`  // who did that; CauseUnknown is a bug
}

// Who can break a prefix.
const (
	CauseModel      = "model switch"
	CauseSystem     = "system prompt"
	CauseTools      = "tools"
	CauseCompaction = "compaction"
	CauseRepair     = "repair"
	CauseRewind     = "rewind"
	CauseImages     = "images" // older ones became captions, because there were too many for a request
	CauseUnknown    = "unknown"
)

// part is one piece of a request: the system prompt, the list of tools, a message.
type part struct {
	size   int64
	digest uint64
}

// asked is a request that was answered, as far as it is remembered.
type asked struct {
	model    string
	parts    []part // system prompt, tools, then the messages
	messages []provider.Message
	row      int64 // newest row that it carried
	bytes    int64
	usage    provider.Usage // of its answer
}

const headParts = 2 // before the first message

// compare looks at a request beside the one before it, and gives what the store keeps of it. A request without tools is a question
// beside the conversation and counts for nothing.
func (t *turn) compare(request provider.Request, carried int64, answer provider.Response) *sessiondb.Asked {
	if t.bare {
		return nil
	}
	last := t.asked
	if last == nil {
		last = t.lastAsked()
	}
	now := describe(request, last)
	now.row, now.model, now.usage = carried, modelLabel(t.model), answer.Usage
	t.mu.Lock()
	rows := t.rows
	t.mu.Unlock()
	if last != nil {
		t.tellPrefix(last.beside(now, rows))
	}
	t.asked = now
	t.g.requests.put(t.session.ID, now)
	out := &sessiondb.Asked{Session: t.session.ID, Row: carried, Bytes: now.bytes}
	if len(answer.ToolCalls) == 0 { // the turn's last: the others are beginnings of it
		out.Digests = now.encode()
	}
	return out
}

// tellPrefix keeps the turn's first break, and says so: one that nobody caused is a bug.
func (t *turn) tellPrefix(p Prefix) {
	if !t.result.Prefix.Broken {
		t.result.Prefix = p
	}
	if !p.Broken {
		return
	}
	t.g.mu.Lock()
	t.g.breaks++
	t.g.mu.Unlock()
	attrs := []any{"cause", p.Cause, "part", p.Part, "row", p.Row, "equal", p.Equal, "before", p.Bytes}
	if p.Cause == CauseUnknown {
		t.log.Warn("request does not begin like the one before it, and nobody knows why", attrs...)
		return
	}
	t.log.Info("request does not begin like the one before it", attrs...)
}

// lastAsked gives the session's last request from memory, or what the store kept of it.
func (t *turn) lastAsked() *asked {
	if last := t.g.requests.get(t.session.ID); last != nil {
		return last
	}
	ctx, cancel := t.writing()
	defer cancel()
	return storedAsked(ctx, t.g.opts.Store, t.session.ID)
}

func storedAsked(ctx context.Context, store interface {
	LastRequest(ctx context.Context, session string) (sessiondb.Asked, bool, error)
}, session string,
) *asked {
	stored, found, err := store.LastRequest(ctx, session)
	if err != nil || !found {
		return nil
	}
	parts := decodeParts(stored.Digests)
	if len(parts) < headParts {
		return nil
	}
	a := &asked{parts: parts, row: stored.Row}
	for _, p := range parts {
		a.bytes += p.size
	}
	return a
}

// describe takes a request apart. What is the same as in the request before is not rendered again.
func describe(request provider.Request, last *asked) *asked {
	now := &asked{messages: request.Messages, parts: make([]part, 0, len(request.Messages)+headParts)}
	var buf []byte
	add := func(p part) { now.parts, now.bytes = append(now.parts, p), now.bytes+p.size }
	add(partOf(append(buf[:0], request.System...)))
	buf = buf[:0]
	for _, tool := range request.Tools {
		buf = fields(buf, tool.Name, tool.Description, string(tool.Parameters))
	}
	add(partOf(buf))
	for i, m := range request.Messages {
		if last != nil && i < len(last.messages) && same(last.messages[i], m) {
			add(last.parts[i+headParts])
			continue
		}
		buf = render(buf[:0], m)
		add(partOf(buf))
	}
	return now
}

func partOf(rendered []byte) part {
	sum := sha256.Sum256(rendered)
	var digest [8]byte
	copy(digest[:storedDigest], sum[:])
	return part{size: int64(len(rendered)), digest: binary.BigEndian.Uint64(digest[:])}
}

func render(buf []byte, m provider.Message) []byte {
	buf = fields(buf, m.Role, m.Content, m.ToolCallID, m.Name, string(m.Raw))
	for _, image := range m.Images {
		buf = fields(buf, image.URL)
	}
	for _, call := range m.ToolCalls {
		buf = fields(buf, call.ID, call.Name, call.Arguments)
	}
	return buf
}

func fields(buf []byte, texts ...string) []byte {
	for _, text := range texts {
		buf = append(append(buf, text...), 0)
	}
	return buf
}

func same(a, b provider.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.ToolCallID == b.ToolCallID && a.Name == b.Name &&
		string(a.Raw) == string(b.Raw) && slices.Equal(a.ToolCalls, b.ToolCalls) &&
		slices.EqualFunc(a.Images, b.Images, func(a, b provider.Image) bool { return a.URL == b.URL })
}

// beside compares a request with the one before it, and finds who is behind the first difference. rows are those the later one was
// made of.
func (last *asked) beside(now *asked, rows []sessiondb.Message) Prefix {
	p := Prefix{Bytes: last.bytes}
	at := 0
	for at < len(last.parts) && at < len(now.parts) && last.parts[at] == now.parts[at] {
		p.Equal += last.parts[at].size
		at++
	}
	switched := last.model != "" && last.model != now.model
	if at == len(last.parts) && !switched {
		return p
	}
	p.Broken = true
	switch {
	case switched:
		p.Equal, p.Part, p.Cause = 0, "model", CauseModel
		return p
	case at == 0:
		p.Part, p.Cause = "system prompt", CauseSystem
		return p
	case at == 1:
		p.Part, p.Cause = "tools", CauseTools
		return p
	}
	i := at - headParts
	p.Part = fmt.Sprintf("message %d", i+1)
	p.Equal += last.sharedIn(now, i)
	p.Row, p.Cause = culprit(last, rows, i)
	return p
}

// sharedIn counts the bytes that both have of a message that differs, where both are known.
func (last *asked) sharedIn(now *asked, i int) (n int64) {
	if i >= len(last.messages) || i >= len(now.messages) {
		return 0
	}
	a, b := render(nil, last.messages[i]), render(nil, now.messages[i])
	for int(n) < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// culprit tells from the rows who changed the message at a place.
func culprit(last *asked, rows []sessiondb.Message, i int) (row int64, cause string) {
	messages, from := replay(rows)
	if i < len(messages) {
		row = from[i]
	}
	carried := false
	for _, m := range rows {
		if m.ID > last.row && (m.Kind == sessiondb.KindSummary || m.Kind == sessiondb.KindModelOnly) {
			return row, CauseCompaction
		}
		carried = carried || m.ID == last.row
	}
	for _, m := range rows {
		if m.ID != row {
			continue
		}
		if m.Wire == withdrawn {
			return row, CauseRepair
		}
		if lost(m, messages[i]) {
			return row, CauseImages
		}
	}
	if !carried && !mutation.On("prefix-break-has-no-cause") {
		return row, CauseRewind
	}
	return row, CauseUnknown
}

// encode gives the parts as the store keeps them: sizes and six bytes of each digest.
func (a *asked) encode() []byte {
	out := make([]byte, 0, len(a.parts)*8)
	for _, p := range a.parts {
		out = binary.AppendUvarint(out, uint64(p.size))
		out = append(out, binary.BigEndian.AppendUint64(nil, p.digest)[:storedDigest]...)
	}
	return out
}

// storedDigest is what is kept of a digest: six bytes tell a million parts apart.
const storedDigest = 6

// decodeParts reads them; what cannot be read counts as nothing.
func decodeParts(raw []byte) []part {
	var out []part
	for len(raw) > 0 {
		size, n := binary.Uvarint(raw)
		if n <= 0 || len(raw) < n+storedDigest {
			return nil
		}
		var digest [8]byte
		copy(digest[:], raw[n:n+storedDigest])
		out = append(out, part{size: int64(size), digest: binary.BigEndian.Uint64(digest[:])})
		raw = raw[n+storedDigest:]
	}
	return out
}

// NextPrefix says what the next request of a session would share with its last one, from the store alone. The tools are taken to be
// the same; found is false when there was no request, or none that is remembered.
func NextPrefix(last sessiondb.Asked, system string, rows []sessiondb.Message) (p Prefix, found bool) {
	parts := decodeParts(last.Digests)
	if len(parts) < headParts {
		return Prefix{}, false
	}
	before := &asked{parts: parts, row: last.Row}
	for _, one := range parts {
		before.bytes += one.size
	}
	now := describe(provider.Request{System: system, Messages: Replay(rows)}, nil)
	now.parts[1] = parts[1]
	return before.beside(now, rows), true
}

// lastRequests remembers the last requests of the sessions that spoke last, within a bound. Strings are those of the rows that were
// read, so it is their bytes that count.
type lastRequests struct {
	mu    sync.Mutex
	of    map[string]*asked
	order []string // the oldest first
	bytes int64
}

const requestsBytes = 4 << 20

func (l *lastRequests) get(session string) *asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[session]
}

func (l *lastRequests) put(session string, a *asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*asked{}
	}
	l.drop(session)
	if a.bytes > requestsBytes {
		return
	}
	l.of[session], l.order, l.bytes = a, append(l.order, session), l.bytes+a.bytes
	for l.bytes > requestsBytes {
		l.drop(l.order[0])
	}
}

func (l *lastRequests) drop(session string) {
	old, ok := l.of[session]
	if !ok {
		return
	}
	delete(l.of, session)
	l.bytes -= old.bytes
	l.order = slices.DeleteFunc(l.order, func(s string) bool { return s == session })
}
