package chamber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// errShrunk is what the reader ends with when a conversation has fewer rows than it once saw.
var errShrunk = errors.New("a conversation has lost rows")

const countSessions = `SELECT session_id, count(*), sum(active), sum(compacted), max(id) FROM messages GROUP BY session_id`

// Sample is the rows of a conversation at one moment. All of them never become fewer; the rest tells who took some away.
type Sample struct {
	All     int64 `json:"all"`
	Live    int64 `json:"live"`
	History int64 `json:"history"`
	Last    int64 `json:"last"` // id
}

func (s Sample) String() string {
	return fmt.Sprintf("%d rows (%d live, %d history, the last is %d)", s.All, s.Live, s.History, s.Last)
}

// counts gives the rows of each conversation, whatever their flags.
func counts(ctx context.Context, s *sessiondb.Store) (map[string]Sample, error) {
	var out map[string]Sample
	err := s.File().Read(ctx, func(c *sqlite.Conn) error {
		out = map[string]Sample{}
		for r, err := range c.Query(countSessions) {
			if err != nil {
				return err
			}
			out[r.Text(0)] = Sample{All: r.Int(1), Live: r.Int(2), History: r.Int(3), Last: r.Int(4)}
		}
		return nil
	})
	return out, err
}

// shrunk names a conversation that has fewer rows than before.
func shrunk(before, now map[string]Sample) error {
	for id, was := range before {
		if now[id].All < was.All {
			return fmt.Errorf("%w: %s had %s, has %s", errShrunk, id, was, now[id])
		}
	}
	return nil
}

// readerRole keeps one handle over many episodes and reads as a screen does: the list, one conversation, a search.
// About each 50 ms it counts all rows, and they never become fewer.
func readerRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	seen := map[string]Sample{}
	for err == nil && ctx.Err() == nil {
		if seen, err = a.readRound(ctx, s, seen); err == nil {
			a.Say(Event{Event: "read", Count: len(seen)})
			err = a.pause(ctx, 40*time.Millisecond)
		}
	}
	return errors.Join(unlessStopped(ctx, err), s.Close())
}

func (a *Actor) readRound(ctx context.Context, s *sessiondb.Store, seen map[string]Sample) (now map[string]Sample, err error) {
	err = a.through(ctx, func() error {
		now, err = counts(ctx, s)
		return err
	})
	if err == nil {
		err = shrunk(seen, now)
	}
	if err != nil {
		return nil, err
	}
	return now, a.through(ctx, func() error {
		list, err := s.Sessions(ctx, sessiondb.ListFilter{Limit: 10})
		if err != nil || len(list) == 0 {
			return err
		}
		one := list[a.rng.IntN(len(list))]
		rows, err := s.Messages(ctx, one.ID, sessiondb.MessageFilter{Latest: true, Limit: 50})
		if err != nil || len(rows) == 0 {
			return err
		}
		_, err = s.Search(ctx, sessiondb.Query{Text: token(rows[a.rng.IntN(len(rows))].Content), Limit: 3})
		return err
	})
}

// churnRole opens the store and closes it again, by turns as the program does and without any of its schema, as a
// stranger would who uses the same library.
func churnRole(ctx context.Context, a *Actor) error {
	a.Say(Event{Event: "ready"})
	for i := 0; ctx.Err() == nil; i++ {
		visit := a.visitStore
		if i%2 == 1 {
			visit = a.visitBare
		}
		if err := visit(ctx); err != nil {
			return unlessStopped(ctx, err)
		}
		a.Say(Event{Event: "cycled", Count: i + 1})
		if a.rest(ctx) != nil {
			return nil
		}
	}
	return nil
}

func (a *Actor) visitStore(ctx context.Context) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	err = a.through(ctx, func() error { _, err := s.Sessions(ctx, sessiondb.ListFilter{}); return err })
	return errors.Join(err, s.Close())
}

func (a *Actor) visitBare(ctx context.Context) error {
	var f *sqlite.File
	err := a.through(ctx, func() (err error) {
		f, err = sqlite.Open(ctx, sqlite.Options{Path: a.StorePath(), Label: "state.db"})
		return err
	})
	if err != nil {
		return err
	}
	err = a.through(ctx, func() error {
		return f.Read(ctx, func(c *sqlite.Conn) error {
			var n int
			_, err := c.Row(`SELECT count(*) FROM sessions`, nil, &n)
			return err
		})
	})
	return errors.Join(err, f.Close())
}
