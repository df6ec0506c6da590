package sessiondb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A file of conversations is UTF-8 text, one JSON object per line, each with one key that says what the line is:
//
//	{"gatewayd":{"format":"sessions","version":1}}   first line
//	{"prompt":{"hash":…,"body":…}}                   a system prompt, once, before the first session that has it
//	{"session":{"id":…,"opened_at":…,…}}             a conversation; what follows belongs to it
//	{"usage":{"model":…,"calls":…,…}}                what it cost, per model, provider and task
//	{"message":{"uid":…,"role":…,"content":…,…}}     its rows in their order, superseded and folded ones too
//	{"fold":{"summary":…,"absorbed":[…]}}            which rows a summary stands for, by their uids
//	{"end":{"sessions":…,"messages":…}}              last line: a file without it is cut off
//
// Times are microseconds since 1970, UTC. A field that is missing is empty, 0 or false. origin is the uid of the first row of the
// same message, left out by that row itself. tool_calls is JSON inside a string, because its bytes matter. Row numbers, leases
// and routes are not part of a file: the same conversations give the same bytes in whatever store they lie.
const (
	formatName    = "sessions"
	formatVersion = 1
)

type fileLine struct {
	Header  *headerLine  `json:"gatewayd,omitempty"`
	Prompt  *promptLine  `json:"prompt,omitempty"`
	Session *sessionLine `json:"session,omitempty"`
	Usage   *usageLine   `json:"usage,omitempty"`
	Message *messageLine `json:"message,omitempty"`
	Fold    *foldLine    `json:"fold,omitempty"`
	End     *endLine     `json:"end,omitempty"`
}

type headerLine struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

type promptLine struct {
	Hash string `json:"hash"`
	Body string `json:"body"`
}

type sessionLine struct {
	ID         string `json:"id"`
	Key        string `json:"key,omitempty"`
	Source     string `json:"source,omitempty"`
	Title      string `json:"title,omitempty"`
	Model      string `json:"model,omitempty"`
	Prompt     string `json:"prompt,omitempty"` // hash
	Parent     string `json:"parent,omitempty"`
	Cwd        string `json:"cwd,omitempty"`
	OpenedAt   int64  `json:"opened_at,omitempty"`
	EndedAt    int64  `json:"ended_at,omitempty"`
	EndReason  string `json:"end_reason,omitempty"`
	Hidden     bool   `json:"hidden,omitempty"`
	Archived   int64  `json:"archived,omitempty"` // 1 by a person, 2 for its age
	Pinned     bool   `json:"pinned,omitempty"`
	Rewinds    int64  `json:"rewinds,omitempty"`
	LastActive int64  `json:"last_active,omitempty"`
	Preview    string `json:"preview,omitempty"`
}

type usageLine struct {
	Model      string `json:"model,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Task       string `json:"task,omitempty"`
	Calls      int64  `json:"calls,omitempty"`
	Prompt     int64  `json:"prompt,omitempty"`
	Completion int64  `json:"completion,omitempty"`
	Cached     int64  `json:"cached,omitempty"`
	CacheWrite int64  `json:"cache_write,omitempty"`
	Reasoning  int64  `json:"reasoning,omitempty"`
	LastRef    string `json:"last_ref"`
	FirstAt    int64  `json:"first_at,omitempty"`
	LastAt     int64  `json:"last_at,omitempty"`
}

type messageLine struct {
	UID          string `json:"uid"`
	Turn         string `json:"turn,omitempty"`
	Origin       string `json:"origin,omitempty"`
	Role         string `json:"role"`
	Content      string `json:"content"`
	Wire         string `json:"wire,omitempty"`
	ToolCalls    string `json:"tool_calls,omitempty"`
	ToolCallID   string `json:"tool_call_id,omitempty"`
	ToolName     string `json:"tool_name,omitempty"`
	Effect       string `json:"effect,omitempty"`
	FinishReason string `json:"finish_reason,omitempty"`
	Reasoning    string `json:"reasoning,omitempty"`
	Kind         string `json:"kind,omitempty"`
	Active       bool   `json:"active,omitempty"`
	Compacted    bool   `json:"compacted,omitempty"`
	CreatedAt    int64  `json:"created_at,omitempty"`
}

type foldLine struct {
	Summary   string   `json:"summary"`
	Absorbed  []string `json:"absorbed"`
	CreatedAt int64    `json:"created_at,omitempty"`
}

type endLine struct {
	Sessions int64 `json:"sessions"`
	Messages int64 `json:"messages"`
}

// encode appends one line.
func encode(b *bytes.Buffer, l fileLine) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		panic("sessiondb: a line is texts and numbers and always encodes: " + err.Error())
	}
}

// decode reads one line; the error names the field where there is one.
func decode(raw []byte) (l fileLine, err error) {
	if !utf8.Valid(raw) {
		return l, errors.New("is no UTF-8 text")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, inWords(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("holds more than one JSON object")
	}
	if n := l.kinds(); n != 1 {
		return l, fmt.Errorf("holds %d of prompt, session, usage, message, fold and end; a line is one of them", n)
	}
	return l, nil
}

func (l fileLine) kinds() (n int) {
	for _, there := range []bool{l.Header != nil, l.Prompt != nil, l.Session != nil, l.Usage != nil, l.Message != nil, l.Fold != nil, l.End != nil} {
		if there {
			n++
		}
	}
	return n
}

func inWords(err error) error {
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %s cannot be a JSON %s", bad.Field, bad.Value)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("has the unknown field %s; a newer gatewayd may have written it", field)
	}
	return fmt.Errorf("is no JSON object: %w", err)
}
