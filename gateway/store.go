package gateway

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Store is what the gateway needs of sessiondb.Store, which see.
type Store interface {
	Writable() error // why it takes no rows now; nil when it does
	CreateSession(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, error)
	Session(ctx context.Context, id string) (sessiondb.Session, error)
	ReopenIfExplicitlyClosed(ctx context.Context, l sessiondb.Lease, provenance string) (bool, error)
	Prompt(ctx context.Context, hash string) (string, error)
	Settings(ctx context.Context, session string) (sessiondb.Settings, error)
	TakeModel(ctx context.Context, session string) (sessiondb.Settings, error)
	Receipt(ctx context.Context, session, turn string, first, last int64) (sessiondb.Receipt, error)
	TurnRows(ctx context.Context, session, turn string) ([]sessiondb.Message, error)
	HasMessage(ctx context.Context, uid string) (bool, error)
	Toolset(ctx context.Context, session string) ([]byte, error)
	FixToolset(ctx context.Context, session string, list []byte) ([]byte, error)
	Transcript(ctx context.Context, session string) ([]sessiondb.Message, error)
	Append(ctx context.Context, l sessiondb.Lease, rows []sessiondb.NewMessage) ([]sessiondb.Message, error)
	Begin(ctx context.Context, l sessiondb.Lease, p sessiondb.Pending, rows []sessiondb.NewMessage) ([]sessiondb.Message, error)
	End(ctx context.Context, l sessiondb.Lease, turn string, rows []sessiondb.NewMessage) ([]sessiondb.Message, error)
	Retry(ctx context.Context, l sessiondb.Lease, turn string, free bool) (sessiondb.Pending, error)
	Mark(ctx context.Context, mark string, turns ...string) error
	Runs(ctx context.Context, f sessiondb.RunFilter) ([]sessiondb.Run, error)
	Pendings(ctx context.Context) ([]sessiondb.Pending, error)
	Accept(ctx context.Context, w sessiondb.Waiting, limit int, run *sessiondb.NewRun) (int, error)
	DropUnbegun(ctx context.Context, before time.Time) ([]string, error)
	Withdraw(ctx context.Context, uid string) (bool, error)
	Inbox(ctx context.Context, session string) ([]sessiondb.Waiting, error)
	Tried(ctx context.Context, uids ...string) error
	LastRequest(ctx context.Context, session string) (sessiondb.Asked, bool, error)
	Repair(ctx context.Context, l sessiondb.Lease, repairs []sessiondb.RowRepair) error
	AddUsage(ctx context.Context, d sessiondb.UsageDelta) error
	AcquireTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error)
	TryTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error)
	Renew(ctx context.Context, l sessiondb.Lease) (sessiondb.Lease, error)
	Release(ctx context.Context, l sessiondb.Lease) error
	AcquireCompaction(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error)
	CompactionState(ctx context.Context, session string) (sessiondb.CompactionState, error)
	SetCompactionState(ctx context.Context, l sessiondb.Lease, st sessiondb.CompactionState) error
	ArchiveAndCompact(ctx context.Context, c sessiondb.Compaction) (sessiondb.Compacted, error)
	Break(ctx context.Context, l sessiondb.Lease) error
	Leases(ctx context.Context) ([]sessiondb.Lease, error)
}

// resolve finds the session of a message, or makes it. Racing messages of one key or id get the same one: the store decides.
func (g *Gateway) resolve(ctx context.Context, say Say) (sessiondb.Session, error) {
	if say.Session != "" {
		session, err := g.opts.Store.Session(ctx, say.Session)
		if err == nil || !errors.Is(err, sessiondb.ErrSessionMissing) {
			return session, explained(err, "session "+say.Session)
		}
	}
	prompt := say.System
	if prompt == "" {
		prompt = g.opts.SystemPrompt
	}
	n := sessiondb.NewSession{
		ID: say.Session, Source: say.Source, Title: say.Title, Cwd: say.Dir, Prompt: prompt, Model: g.tuned().Model.Describe().Name, Hidden: say.Hidden,
	}
	if say.Session == "" {
		n.Key = say.Key
	}
	session, err := g.opts.Store.CreateSession(ctx, n)
	if err != nil {
		err = g.refused(err, "the session")
	}
	return session, err
}

// refused explains why a turn did not begin. Where the store has turned out to take nothing, that is what a person has to know, and
// not which of its writes met it.
func (g *Gateway) refused(err error, thing string) error {
	if down := g.opts.Store.Writable(); down != nil {
		return explained(down, thing)
	}
	return explained(err, thing)
}

// explained makes sure that a person reads a *problem.Error. nil stays nil.
func explained(err error, thing string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	return &problem.Error{
		Kind: problem.Unavailable, Thing: thing, What: "cannot be read or written", Fate: "the message was not stored",
		Remedy: "see `gatewayd doctor`, then send it again", Err: err,
	}
}
