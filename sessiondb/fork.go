package sessiondb

import (
	"context"
	"fmt"
	"math"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Fork makes a session that begins with what was said in another one up to a row (0: all of it), and goes its own way from there. The
// copies are rows of their own, in the same words; the system prompt and the list of tools are the same unless the new session brings a
// prompt, so its first request begins like the next one of the other would. From before a compaction it takes what was said and not what that made of it.
//
// The other session is not changed, and may have a turn under way: what this has not closed is not taken. It needs no lease.
func (s *Store) Fork(ctx context.Context, from string, upTo int64, n NewSession) (Session, error) {
	source, err := s.Session(ctx, from)
	if err != nil {
		return Session{}, err
	}
	rows, err := s.until(ctx, from, upTo)
	if err != nil {
		return Session{}, err
	}
	n.Parent = from
	if n.Model == "" {
		n.Model = source.Model
	}
	if n.Cwd == "" {
		n.Cwd = source.Cwd
	}
	if n.Source == "" {
		n.Source = source.Source
	}
	if n.Prompt == "" && source.PromptHash != "" {
		if n.Prompt, err = s.Prompt(ctx, source.PromptHash); err != nil {
			return Session{}, err
		}
	}
	batch := make([]NewMessage, 0, len(rows))
	for _, m := range rows {
		batch = append(batch, NewMessage{
			Role: m.Role, Content: m.Content, Wire: m.Wire, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, ToolName: m.ToolName, Effect: m.Effect,
			FinishReason: m.FinishReason, Reasoning: m.Reasoning, Kind: m.Kind, TurnID: m.TurnID, CreatedAt: m.CreatedAt,
		})
	}
	return s.Found(ctx, n, batch)
}

// until gives the rows that a fork begins with: what was live when the row was the last one. A turn that is not closed is left out.
func (s *Store) until(ctx context.Context, from string, upTo int64) (rows []Message, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		if rows, err = s.queryMessages(c, nil, selectLive, from, int64(0), int64(math.MaxInt64)); err != nil {
			return err
		}
		pending, err := queryPending(c, ` WHERE session_id = ?`, from)
		if err != nil {
			return err
		}
		folded := false
		for _, m := range rows {
			folded = folded || upTo > 0 && m.ID > upTo && (m.OriginID <= upTo || m.Kind == KindSummary)
		}
		if folded {
			if rows, err = s.shown(c, from, selectShown, 0, upTo+1, int(maxHint)*maxLineage); err != nil {
				return err
			}
		}
		rows = keptUntil(rows, upTo, pending)
		return nil
	})
	return rows, err
}

func keptUntil(rows []Message, upTo int64, pending []Pending) (out []Message) {
	for _, m := range rows {
		if upTo > 0 && m.OriginID > upTo || len(pending) > 0 && m.TurnID == pending[0].Turn || m.Kind == KindSummary && upTo > 0 && m.ID > upTo {
			continue
		}
		out = append(out, m)
	}
	return out
}

// Found makes a session together with its first rows, in one transaction: nobody sees it without them. A Conflict problem when there is
// one of that id. The list of tools of its parent is its own as long as their prompts are the same.
func (s *Store) Found(ctx context.Context, n NewSession, rows []NewMessage) (out Session, err error) {
	now := time.Now()
	if n, err = n.complete(now); err != nil {
		return Session{}, err
	}
	var batch []NewMessage
	if len(rows) > 0 {
		if batch, err = s.prepare(n.ID, rows); err != nil {
			return Session{}, err
		}
	}
	err = s.file.Write(ctx, sqlite.Op{
		Label: "found session", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if there, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, n.ID); err != nil || there {
				return firstError(err, errSessionThere(n.ID))
			}
			if err := takenTitle(tx.Conn, n.ID, n.Title); err != nil {
				return err
			}
			if err := insertSession(tx, n, now.UnixMicro()); err != nil {
				return err
			}
			if len(batch) > 0 {
				if _, err := insertMessages(tx, n.ID, batch); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(inheritTools, n.ID); err != nil {
				return fmt.Errorf("inherit tools: %w", err)
			}
			if err := n.found(tx, now); err != nil {
				return err
			}
			out, _, err = s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, n.ID)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return exists(c, `SELECT 1 FROM sessions WHERE id = ?`, n.ID) },
	})
	if err == nil || sqlite.IsCommitted(err) {
		s.work.added(len(batch))
	}
	return out, err
}

const inheritTools = `UPDATE sessions SET settings = json_set(settings, '$.toolset', (SELECT json_extract(p.settings, '$.toolset') FROM sessions p WHERE p.id = sessions.parent))
 WHERE id = ? AND EXISTS (SELECT 1 FROM sessions p WHERE p.id = sessions.parent AND p.prompt_hash IS sessions.prompt_hash
 AND CASE WHEN json_valid(p.settings) THEN json_extract(p.settings, '$.toolset') END IS NOT NULL)`

func errSessionThere(id string) error {
	return &problem.Error{Kind: problem.Conflict, Thing: sessionThing(id), What: "exists already", Fate: "nothing was written", Remedy: "choose another id"}
}
