package sessiondb

import (
	"context"

	"gatewayd/internal/sqlite"
)

// learnedModel begins the keys of meta under which it is kept what a server taught, by its address and the model's name.
const learnedModel = "learned:"

// KeepLearned keeps what a server taught us about one of its models, as a text that only its owner reads. The last word counts.
func (s *Store) KeepLearned(ctx context.Context, server, model, learned string) error {
	key := learnedModel + server + " " + model
	return s.file.Write(ctx, sqlite.Op{
		Label: "keep what a server taught", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(`INSERT OR REPLACE INTO meta(k, v) VALUES(?, ?)`, key, learned)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM meta WHERE k = ? AND v = ?`, key, learned)
		},
	})
}

// Learned gives what KeepLearned kept; "" when nothing was.
func (s *Store) Learned(ctx context.Context, server, model string) (learned string, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		learned = ""
		_, err := c.Row(`SELECT v FROM meta WHERE k = ?`, []any{learnedModel + server + " " + model}, &learned)
		return err
	})
	return learned, err
}
