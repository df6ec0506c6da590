package sessiondb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatewayd/internal/sqlite"
)

// Session is one conversation as lists show it. The counters are kept by the writer of messages.
type Session struct {
	ID           string     `json:"id"`
	Key          string     `json:"key,omitempty"`
	Source       string     `json:"source,omitempty"`
	Title        string     `json:"title,omitempty"`
	Model        string     `json:"model,omitempty"`
	PromptHash   string     `json:"prompt_hash,omitempty"`
	Parent       string     `json:"parent,omitempty"`
	Cwd          string     `json:"cwd,omitempty"`
	OpenedAt     time.Time  `json:"opened_at"`
	EndedAt      *time.Time `json:"ended_at,omitempty"`
	EndReason    string     `json:"end_reason,omitempty"`
	Hidden       bool       `json:"hidden,omitempty"`
	Archived     bool       `json:"archived,omitempty"`
	Pinned       bool       `json:"pinned,omitempty"`
	MessageCount int64      `json:"message_count"` // live rows
	LastActive   time.Time  `json:"last_active"`
	Preview      string     `json:"preview,omitempty"`
}

// NewSession is a session to be made. An empty ID is made up; Prompt is the system prompt, stored once per text.
type NewSession struct {
	ID, Key, Source, Title, Model, Prompt, Parent, Cwd string
	Hidden                                             bool
	TitleAlone                                         bool // not made where another session is called so
	Unbegun                                            bool // made for a message that follows at once; see DropUnbegun
}

const sessionColumns = `id, key, source, title, model, prompt_hash, parent, cwd, opened_at, ended_at, end_reason,
 hidden, archived, pinned, message_count, last_active, preview`

func (s *Store) scanSession(r *sqlite.Row) Session {
	out := Session{
		ID: r.Text(0), Key: text(r, 1), Source: r.Text(2), Title: r.Text(3), Model: r.Text(4), PromptHash: text(r, 5), Parent: text(r, 6),
		Cwd: r.Text(7), OpenedAt: moment(r.Int(8)), EndReason: text(r, 10), Hidden: r.Bool(11), Archived: r.Int(12) != 0, Pinned: r.Bool(13),
		MessageCount: r.Int(14), LastActive: moment(r.Int(15)), Preview: r.Text(16),
	}
	if !r.Null(9) {
		ended := moment(r.Int(9))
		out.EndedAt = &ended
	}
	if out.OpenedAt.IsZero() || out.LastActive.IsZero() || (out.EndedAt != nil && out.EndedAt.IsZero()) {
		s.once.warn("session has a time that is none", out.ID, "session", out.ID)
	}
	return out
}

// CreateSession makes the session, or returns the one that is there: for a key, the one its route leads to (see
// Resolve), for an id, the row with that id.
func (s *Store) CreateSession(ctx context.Context, n NewSession) (Session, error) {
	if n.Key != "" {
		out, _, err := s.Resolve(ctx, n)
		return out, err
	}
	out, _, err := s.ensure(ctx, n)
	return out, err
}

func (s *Store) ensure(ctx context.Context, n NewSession) (out Session, made bool, err error) {
	now := time.Now()
	if n, err = n.complete(now); err != nil {
		return Session{}, false, err
	}
	err = s.file.Write(ctx, sqlite.Op{
		Label: "create session", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			got, fresh, err := s.route(tx, n, now)
			out, made = got, fresh
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return exists(c, `SELECT 1 FROM sessions WHERE id = ?`, out.ID) },
	})
	if err == nil && made {
		s.seen.put(n, out)
	}
	return out, made, err
}

// Session reads one session; ErrSessionMissing when there is none.
func (s *Store) Session(ctx context.Context, id string) (Session, error) {
	return s.oneSession(ctx, id, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`)
}

func (s *Store) oneSession(ctx context.Context, name, query string) (out Session, err error) {
	found := false
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, found, err = s.querySession(c, query, name)
		return err
	})
	if err == nil && !found {
		err = errSessionMissing(name)
	}
	return out, err
}

func (s *Store) querySession(c *sqlite.Conn, query, arg string) (Session, bool, error) {
	for r, err := range c.Query(query, arg) {
		if err != nil {
			return Session{}, false, err
		}
		return s.scanSession(r), true, nil
	}
	return Session{}, false, nil
}

// SetTitle names a session; an empty title takes its name away. A Conflict problem when another session is called so, an Invalid one when
// it is longer than titleMost. What does not print is taken out: titles stand in lists.
func (s *Store) SetTitle(ctx context.Context, id, title string) error {
	title = printable(title)
	if err := checkTitle(title); err != nil {
		return err
	}
	return s.file.Write(ctx, sqlite.Op{
		Label: "set title", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if err := takenTitle(tx.Conn, id, title); err != nil {
				return err
			}
			res, err := tx.Exec(`UPDATE sessions SET title = ? WHERE id = ?`, title, id)
			if err == nil && res.Changes == 0 {
				return errSessionMissing(id)
			}
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM sessions WHERE id = ? AND title = ?`, id, title)
		},
	})
}

// Prompt is the text behind a Session's PromptHash; "" when there is none.
func (s *Store) Prompt(ctx context.Context, hash string) (body string, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(`SELECT body FROM prompts WHERE hash = ?`, []any{hash}, &body)
		return err
	})
	return body, err
}

func promptHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// complete checks the names and makes up an id: the second it began, and enough chance for a whole planet in that second.
func (n NewSession) complete(now time.Time) (NewSession, error) {
	if n.ID == "" {
		n.ID = now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:10])
	}
	for _, name := range []string{n.ID, n.Key} {
		if !plainName(name) {
			return n, errInvalid("session name", "%q is longer than 256 bytes, or holds control characters or slashes", name)
		}
	}
	for _, f := range []*string{&n.Source, &n.Model, &n.Prompt, &n.Cwd} {
		*f = strings.ToValidUTF8(*f, "\uFFFD")
	}
	if n.Title = printable(n.Title); n.TitleAlone { // others come from another store, or are ours
		return n, checkTitle(n.Title)
	}
	return n, nil
}

// titleMost is how many characters a title may have.
const titleMost = 200

func checkTitle(title string) error {
	if n := utf8.RuneCountInString(title); n > titleMost {
		return errInvalid("title", "has %d characters, and at most %d fit", n, titleMost)
	}
	return nil
}

// printable is a text without what steers a terminal or turns the direction of writing.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// plainName accepts what can be printed on a line and be part of a file name.
func plainName(s string) bool {
	return len(s) <= 256 && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == '/' || r == '\\'
	}) < 0
}
