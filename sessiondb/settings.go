package sessiondb

import (
	"context"
	"encoding/json"
	"maps"

	"gatewayd/internal/sqlite"
)

// Settings is what a person chose for one session alone; it survives a restart and ends with the session. The zero value
// leaves everything as it is configured.
type Settings struct {
	Model    string // answers instead of the configured one
	Provider string // where Model is asked; empty: where its name leads
	Once     string // answers the next turn, before Model, and then no more
	Busy     string // what becomes of a message that comes while a turn runs: queue, steer, redirect, interrupt; empty: queue

	rest map[string]json.RawMessage // of a newer gatewayd: kept as it is
}

// fields gives the texts by the names they are stored under.
func (s *Settings) fields() map[string]*string {
	return map[string]*string{"model": &s.Model, "provider": &s.Provider, "once": &s.Once, "busy": &s.Busy}
}

func decodeSettings(raw string) (s Settings, err error) {
	if raw == "" || raw == "{}" {
		return Settings{}, nil
	}
	if err := json.Unmarshal([]byte(raw), &s.rest); err != nil {
		return Settings{}, err
	}
	for name, field := range s.fields() {
		if value, there := s.rest[name]; there && json.Unmarshal(value, field) == nil {
			delete(s.rest, name)
		}
	}
	return s, nil
}

func (s Settings) encode() (string, error) {
	all := maps.Clone(s.rest)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for name, field := range s.fields() {
		delete(all, name)
		if *field == "" {
			continue
		}
		value, err := json.Marshal(*field)
		if err != nil {
			return "", err
		}
		all[name] = value
	}
	raw, err := json.Marshal(all)
	return string(raw), err
}

const readSettings = `SELECT settings FROM sessions WHERE id = ?`

// Settings reads what was chosen for a session; ErrSessionMissing when there is none. Settings that cannot be read count as
// none: a conversation must not end because of them.
func (s *Store) Settings(ctx context.Context, session string) (out Settings, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, err = s.settings(c, session)
		return err
	})
	return out, err
}

func (s *Store) settings(c *sqlite.Conn, session string) (Settings, error) {
	var raw string
	found, err := c.Row(readSettings, []any{session}, &raw)
	if err != nil || !found {
		return Settings{}, firstError(err, errSessionMissing(session))
	}
	out, err := decodeSettings(raw)
	if err != nil {
		s.once.warn("settings of a session cannot be read", session, "session", session, "error", err)
		return Settings{}, nil
	}
	return out, nil
}

// ChangeSettings reads, changes and writes the settings of a session in one transaction, so that two changes at once are
// both there afterwards. change may run more than once. It gives the settings as they are now.
func (s *Store) ChangeSettings(ctx context.Context, session string, change func(*Settings)) (out Settings, err error) {
	raw := ""
	err = s.file.Write(ctx, sqlite.Op{
		Label: "change settings", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if out, err = s.settings(tx.Conn, session); err != nil {
				return err
			}
			change(&out)
			if raw, err = out.encode(); err != nil {
				return err
			}
			_, err := tx.Exec(`UPDATE sessions SET settings = ? WHERE id = ?`, raw, session)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM sessions WHERE id = ? AND settings = ?`, session, raw)
		},
	})
	return out, err
}

// TakeModel gives the settings for a turn that begins: a model that was chosen for one turn is in Model, and is chosen no
// longer. It writes only when there is one.
func (s *Store) TakeModel(ctx context.Context, session string) (Settings, error) {
	now, err := s.Settings(ctx, session)
	if err != nil || now.Once == "" {
		return now, err
	}
	taken := ""
	now, err = s.ChangeSettings(ctx, session, func(c *Settings) { taken, c.Once = c.Once, "" })
	if taken != "" {
		now.Model, now.Provider = taken, ""
	}
	return now, err
}
