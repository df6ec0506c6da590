package sessiondb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gatewayd/internal/problem"
)

// fileLimits bound what one file may hold: it is stored in one transaction, and others wait for it.
type fileLimits struct {
	sessions, messages, perSession int64
	bytes, sessionBytes            int64
}

// defaultLimits are those of the original, so that its users meet no smaller ones.
var defaultLimits = fileLimits{sessions: 500, messages: 50_000, perSession: 10_000, bytes: 25 << 20, sessionBytes: 5 << 20}

// maxLine is what a line may be in any case: the largest message, every character of it escaped.
const maxLine = 6*maxMessage + 4096

// fileReader gives the lines of a file, each one checked against those before it.
type fileReader struct {
	name   string
	in     *bufio.Reader
	limits *fileLimits // nil: none

	number              int64 // of the line
	bytes, sessionBytes int64
	sessions, messages  int64
	here                int64           // messages of the session
	prompts             map[string]bool // hashes
	ids                 map[string]bool // of sessions
	uids                map[string]bool // of all messages
	session             *sessionCheck
	ended               bool
}

// sessionCheck is what lines of the same session are checked against.
type sessionCheck struct {
	id     string
	firsts map[string]bool // uids of first rows
	live   map[string]bool // first rows with a live row
	rows   map[string]bool
	usage  map[string]bool
	folds  map[string]bool
}

func newFileReader(name string, in io.Reader, limits *fileLimits) *fileReader {
	return &fileReader{
		name: name, in: bufio.NewReaderSize(in, 1<<16), limits: limits,
		prompts: map[string]bool{}, ids: map[string]bool{}, uids: map[string]bool{},
	}
}

// next gives the next line, io.EOF after the last one, or a problem that names the line.
func (f *fileReader) next() (fileLine, error) {
	raw, err := f.raw()
	if errors.Is(err, io.EOF) {
		if !f.ended {
			return fileLine{}, f.wrong("is the last one, and it is no end line: the file is cut off")
		}
		return fileLine{}, io.EOF
	}
	if err != nil {
		return fileLine{}, err
	}
	if f.ended {
		return fileLine{}, f.wrong("comes after the end line")
	}
	l, err := decode(raw)
	if err != nil {
		return l, f.wrong("%v", err)
	}
	if (l.Header != nil) != (f.number == 1) {
		return l, f.wrong(`must be {"gatewayd":{"format":"sessions","version":1}} when it is the first line, and only then`)
	}
	return l, f.check(l)
}

func (f *fileReader) wrong(format string, args ...any) error {
	return &problem.Error{
		Kind: problem.Invalid, Thing: fmt.Sprintf("file %s, line %d", f.name, f.number), What: fmt.Sprintf(format, args...),
		Fate: "nothing of the file was imported", Remedy: "take a file that `gatewayd sessions export` wrote, as it is",
	}
}

func (f *fileReader) beyond(what string, limit int64) error {
	return &problem.Error{
		Kind: problem.Invalid, Thing: fmt.Sprintf("file %s, line %d", f.name, f.number), What: fmt.Sprintf("goes beyond %d %s", limit, what),
		Fate: "nothing of the file was imported", Remedy: "export fewer sessions into one file, or lift the limits with --unlimited",
	}
}

// raw reads one line.
func (f *fileReader) raw() ([]byte, error) {
	f.number++
	var line []byte
	for {
		part, err := f.in.ReadSlice('\n')
		line = append(line, part...)
		f.bytes += int64(len(part))
		switch {
		case len(line) > maxLine:
			return nil, f.wrong("is longer than %d bytes", maxLine)
		case f.limits != nil && f.bytes > f.limits.bytes:
			return nil, f.beyond("bytes in the file", f.limits.bytes)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			err = nil // the last line may lack its end
		}
		if err == nil {
			f.sessionBytes += int64(len(line))
			line = bytes.TrimRight(line, "\r\n")
		} else if !errors.Is(err, io.EOF) {
			err = &problem.Error{Kind: problem.Unavailable, Thing: "file " + f.name, What: "cannot be read", Fate: "nothing of it was imported", Err: err}
		}
		if errors.Is(err, io.EOF) {
			f.number--
		}
		return line, err
	}
}

func (f *fileReader) check(l fileLine) error {
	switch {
	case l.Header != nil:
		return f.checkHeader(*l.Header)
	case l.Prompt != nil:
		return f.checkPrompt(*l.Prompt)
	case l.Session != nil:
		return f.checkSession(*l.Session)
	case l.End != nil:
		return f.checkEnd(*l.End)
	case f.session == nil:
		return f.wrong("comes before the session that it belongs to")
	case l.Usage != nil:
		return f.checkUsage(*l.Usage)
	case l.Fold != nil:
		return f.checkFold(*l.Fold)
	}
	return f.checkMessage(*l.Message)
}

func (f *fileReader) checkHeader(h headerLine) error {
	if h.Format != formatName || h.Version != formatVersion {
		return f.wrong("field gatewayd says format %q, version %d; this gatewayd reads %q, version %d", h.Format, h.Version, formatName, formatVersion)
	}
	return nil
}

func (f *fileReader) checkPrompt(p promptLine) error {
	if p.Hash != promptHash(p.Body) {
		return f.wrong("field prompt.hash is not the digest of the body")
	}
	f.prompts[p.Hash] = true
	return nil
}

func (f *fileReader) checkSession(s sessionLine) error {
	f.sessions, f.here, f.sessionBytes = f.sessions+1, 0, 0
	switch {
	case f.limits != nil && f.sessions > f.limits.sessions:
		return f.beyond("sessions", f.limits.sessions)
	case s.ID == "" || !plainName(s.ID):
		return f.wrong("field session.id is %.80q; it must be 1 to 256 bytes without control characters and slashes", s.ID)
	case f.ids[s.ID]:
		return f.wrong("field session.id is %q, which was there before", s.ID)
	case !plainName(s.Key):
		return f.wrong("field session.key must be at most 256 bytes without control characters and slashes")
	case s.Prompt != "" && !f.prompts[s.Prompt]:
		return f.wrong("field session.prompt names no prompt line before it")
	case (s.EndedAt == 0) != (s.EndReason == ""):
		return f.wrong("fields session.ended_at and session.end_reason must both be there, or neither")
	case s.Archived < 0 || s.Archived > 2:
		return f.wrong("field session.archived is %d; it is 0, 1 or 2", s.Archived)
	case s.Rewinds < 0:
		return f.wrong("field session.rewinds is negative")
	case len([]rune(s.Preview)) > previewRunes:
		return f.wrong("field session.preview is longer than %d characters", previewRunes)
	}
	f.ids[s.ID] = true
	f.session = &sessionCheck{
		id: s.ID, firsts: map[string]bool{}, live: map[string]bool{}, rows: map[string]bool{}, usage: map[string]bool{}, folds: map[string]bool{},
	}
	return f.times("session", map[string]int64{"opened_at": s.OpenedAt, "ended_at": s.EndedAt, "last_active": s.LastActive})
}

func (f *fileReader) times(line string, list map[string]int64) error {
	for field, us := range list {
		if us != 0 && !sane(us) {
			return f.wrong("field %s.%s is %d, which is no time (microseconds since 1970)", line, field, us)
		}
	}
	return nil
}

func (f *fileReader) checkUsage(u usageLine) error {
	key := u.Model + "\x00" + u.Provider + "\x00" + u.Task
	if f.session.usage[key] {
		return f.wrong("field usage.model is %q, of which usage was there before", u.Model)
	}
	f.session.usage[key] = true
	for field, n := range map[string]int64{
		"calls": u.Calls, "prompt": u.Prompt, "completion": u.Completion, "cached": u.Cached, "cache_write": u.CacheWrite, "reasoning": u.Reasoning,
	} {
		if n < 0 {
			return f.wrong("field usage.%s is negative", field)
		}
	}
	return f.times("usage", map[string]int64{"first_at": u.FirstAt, "last_at": u.LastAt})
}

func (f *fileReader) checkMessage(m messageLine) error {
	f.messages, f.here = f.messages+1, f.here+1
	switch {
	case f.limits != nil && f.messages > f.limits.messages:
		return f.beyond("messages", f.limits.messages)
	case f.limits != nil && f.here > f.limits.perSession:
		return f.beyond("messages in one session", f.limits.perSession)
	case f.limits != nil && f.sessionBytes > f.limits.sessionBytes:
		return f.beyond("bytes in one session", f.limits.sessionBytes)
	case m.UID == "" || !plainName(m.UID):
		return f.wrong("field message.uid is %.80q; it must be 1 to 256 bytes without control characters and slashes", m.UID)
	case f.uids[m.UID]:
		return f.wrong("field message.uid is %q, which was there before", m.UID)
	case m.Active && m.Compacted:
		return f.wrong("fields message.active and message.compacted cannot both be true")
	case m.Origin != "" && !f.session.firsts[m.Origin]:
		return f.wrong("field message.origin names no first row of this session before it")
	case m.ToolCalls != "" && !json.Valid([]byte(m.ToolCalls)):
		return f.wrong("field message.tool_calls holds no JSON")
	}
	if err := (NewMessage{Role: m.Role, Content: m.Content, Wire: m.Wire, Reasoning: m.Reasoning, ToolCalls: []byte(m.ToolCalls)}).check(0); err != nil {
		return f.wrong("field message.role or a text: %s", whatOf(err))
	}
	return f.enterMessage(m)
}

func whatOf(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.What
	}
	return err.Error()
}

func (f *fileReader) enterMessage(m messageLine) error {
	first := m.Origin
	if first == "" {
		first = m.UID
		f.session.firsts[first] = true
	}
	if m.Active {
		if f.session.live[first] {
			return f.wrong("field message.active: the same message is live already")
		}
		f.session.live[first] = true
	}
	f.uids[m.UID], f.session.rows[m.UID] = true, true
	return f.times("message", map[string]int64{"created_at": m.CreatedAt})
}

func (f *fileReader) checkFold(l foldLine) error {
	if !f.session.rows[l.Summary] || f.session.folds[l.Summary] {
		return f.wrong("field fold.summary must name a message of this session, once")
	}
	f.session.folds[l.Summary] = true
	return f.times("fold", map[string]int64{"created_at": l.CreatedAt})
}

func (f *fileReader) checkEnd(l endLine) error {
	f.ended = true
	if l.Sessions != f.sessions || l.Messages != f.messages {
		return f.wrong("says %d sessions and %d messages; the file holds %d and %d", l.Sessions, l.Messages, f.sessions, f.messages)
	}
	return nil
}
