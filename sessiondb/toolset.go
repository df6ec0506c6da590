package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// A session's list of tools is kept like its system prompt, once per text: prompts holds the text, and the settings its hash.
const (
	toolsetHash = `CASE WHEN json_valid(settings) THEN json_extract(settings, '$.toolset') END`
	readToolset = `SELECT body FROM prompts WHERE hash = (SELECT ` + toolsetHash + ` FROM sessions WHERE id = ?)`
	setToolset  = `UPDATE sessions SET settings = json_set(settings, '$.toolset', ?) WHERE id = ?`
)

// Toolset gives the list of tools that a session's model was told of, as it was fixed; nil when it was not.
func (s *Store) Toolset(ctx context.Context, session string) (list []byte, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		list, err = toolset(c, session)
		return err
	})
	return list, err
}

func toolset(c *sqlite.Conn, session string) ([]byte, error) {
	var body string
	found, err := c.Row(readToolset, []any{session}, &body)
	if err != nil || !found {
		return nil, err
	}
	return []byte(body), nil
}

// FixToolset keeps the list of tools of a session, unless it has one: the first counts, and is given.
func (s *Store) FixToolset(ctx context.Context, session string, list []byte) (fixed []byte, err error) {
	hash := promptHash(string(list))
	err = s.file.Write(ctx, sqlite.Op{
		Label: "fix tools", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if fixed, err = toolset(tx.Conn, session); err != nil || fixed != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT OR IGNORE INTO prompts(hash, body, created_at) VALUES(?, ?, ?)`, hash, string(list), time.Now().UnixMicro()); err != nil {
				return fmt.Errorf("store tools: %w", err)
			}
			res, err := tx.Exec(setToolset, hash, session)
			if err == nil && res.Changes == 0 {
				err = errSessionMissing(session)
			}
			fixed = list
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			stored, err := toolset(c, session)
			return stored != nil, err
		},
	})
	return fixed, err
}
