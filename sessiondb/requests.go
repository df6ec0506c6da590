package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// Asked is the last request of a session that was answered: what its window holds, and what the next request is compared with.
type Asked struct {
	Session    string    `json:"session"`
	Model      string    `json:"model"` // that answered
	Provider   string    `json:"provider"`
	Prompt     int64     `json:"prompt_tokens"` // as the provider counted them
	Completion int64     `json:"completion_tokens"`
	Row        int64     `json:"row"`   // newest row that the request carried
	Bytes      int64     `json:"bytes"` // of its messages, as they are rendered for comparing
	Digests    []byte    `json:"-"`     // of its parts; those of an earlier request, which it begins with, where it is in the middle of a turn
	At         time.Time `json:"at"`
}

// putRequest leaves the digests of an earlier request where the newer one brings none: they are those of its beginning.
const putRequest = `INSERT INTO requests(session_id, model, provider, prompt, completion, row_id, bytes, digests, at)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT(session_id) DO UPDATE SET model = ?2, provider = ?3, prompt = ?4, completion = ?5,
 row_id = ?6, bytes = ?7, digests = coalesce(?8, digests), at = ?9`

func noteRequest(tx *sqlite.Tx, a Asked, at int64) error {
	var digests any
	if len(a.Digests) > 0 {
		digests = a.Digests
	}
	_, err := tx.Exec(putRequest, a.Session, a.Model, a.Provider, a.Prompt, a.Completion, a.Row, a.Bytes, digests, at)
	return during("note request", err)
}

// LastRequest gives the last answered request of a session; false when there was none.
func (s *Store) LastRequest(ctx context.Context, session string) (out Asked, found bool, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, found = Asked{}, false
		for r, err := range c.Query(`SELECT model, provider, prompt, completion, row_id, bytes, digests, at FROM requests WHERE session_id = ?`, session) {
			if err != nil {
				return fmt.Errorf("read last request: %w", err)
			}
			found = true
			out = Asked{
				Session: session, Model: r.Text(0), Provider: r.Text(1), Prompt: r.Int(2), Completion: r.Int(3), Row: r.Int(4), Bytes: r.Int(5), At: moment(r.Int(7)),
			}
			if !r.Null(6) {
				out.Digests = r.Bytes(6)
			}
		}
		return nil
	})
	return out, found, err
}

// ForgetRequest drops the last request of a session: nothing that comes later is compared with it.
func (s *Store) ForgetRequest(ctx context.Context, session string) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: "forget request", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(`DELETE FROM requests WHERE session_id = ?`, session)
			return during("forget request", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			there, err := exists(c, `SELECT 1 FROM requests WHERE session_id = ?`, session)
			return !there, err
		},
	})
}
