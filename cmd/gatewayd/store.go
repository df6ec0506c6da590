package main

import (
	"context"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/registry"
	"gatewayd/sessiondb"
)

// heals is how long a call waits for a store that is being opened anew. A caller with a nearer end does not wait past it.
const heals = 10 * time.Second

// keptStore is the daemon's one conversation store, for everybody who talks to it: each call takes a reference for as
// long as it lasts, so that a store whose file was lost can be closed and opened anew without anybody starting over.
type keptStore struct {
	keep *registry.Keep[*sessiondb.Store]
	path string // without links: the spool lies beside the file itself
}

// acquire lends the store as it is now, or as it is soon.
func (k keptStore) acquire(ctx context.Context) (*sessiondb.Store, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, heals)
	defer cancel()
	ref, err := k.keep.Acquire(ctx)
	return borrowed(ref, err)
}

// now is acquire for a look, which opens nothing and waits for nothing.
func (k keptStore) now() (*sessiondb.Store, func(), error) {
	ref, err := k.keep.Look()
	return borrowed(ref, err)
}

func borrowed(ref registry.Ref[*sessiondb.Store], err error) (*sessiondb.Store, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	store, ok := ref.Handle()
	if !ok {
		ref.Release()
		return nil, nil, &problem.Error{Kind: problem.Unavailable, Thing: "state.db", What: "has been closed: the daemon is stopping"}
	}
	return store, ref.Release, nil
}

// soon is how long a message waits for a store that was just lost: most are back within a second.
const soon = 3 * time.Second

// release ends the standing reference.
func (k keptStore) release() { k.keep.Release() }

// Writable is asked before a message is taken. A store that is not back soon takes none.
func (k keptStore) Writable() error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	store, release, err := k.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return store.Writable()
}

// State is asked by every look at /health, and costs flags.
func (k keptStore) State() sessiondb.State {
	store, release, err := k.now()
	if err != nil {
		return sessiondb.StateQuarantined
	}
	defer release()
	return store.State()
}

// Health tells of a store that cannot be opened by what lies beside it.
func (k keptStore) Health() sessiondb.Health {
	store, release, err := k.now()
	if err != nil {
		h := sessiondb.Beside(k.path)
		h.State, h.Reason, h.Detail = sessiondb.StateQuarantined, "not open", err.Error()
		return h
	}
	defer release()
	return store.Health()
}

// do runs one call that answers with an error only.
func (k keptStore) do(ctx context.Context, call func(*sessiondb.Store) error) error {
	_, err := lent(k, ctx, func(s *sessiondb.Store) (struct{}, error) { return struct{}{}, call(s) })
	return err
}

// lent runs one call on the store as it is now.
func lent[T any](k keptStore, ctx context.Context, call func(*sessiondb.Store) (T, error)) (T, error) {
	store, release, err := k.acquire(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer release()
	return call(store)
}

func (k keptStore) CreateSession(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.CreateSession(ctx, n) })
}

func (k keptStore) Session(ctx context.Context, id string) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.Session(ctx, id) })
}

func (k keptStore) Sessions(ctx context.Context, f sessiondb.ListFilter) ([]sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Session, error) { return s.Sessions(ctx, f) })
}

func (k keptStore) ReopenIfExplicitlyClosed(ctx context.Context, l sessiondb.Lease, provenance string) (bool, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (bool, error) { return s.ReopenIfExplicitlyClosed(ctx, l, provenance) })
}

func (k keptStore) Prompt(ctx context.Context, hash string) (string, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (string, error) { return s.Prompt(ctx, hash) })
}

func (k keptStore) TurnRows(ctx context.Context, session, turn string) ([]sessiondb.Message, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Message, error) { return s.TurnRows(ctx, session, turn) })
}

func (k keptStore) HasMessage(ctx context.Context, uid string) (bool, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (bool, error) { return s.HasMessage(ctx, uid) })
}

func (k keptStore) Transcript(ctx context.Context, session string) ([]sessiondb.Message, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Message, error) { return s.Transcript(ctx, session) })
}

func (k keptStore) Messages(ctx context.Context, session string, f sessiondb.MessageFilter) ([]sessiondb.Message, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Message, error) { return s.Messages(ctx, session, f) })
}

func (k keptStore) Search(ctx context.Context, q sessiondb.Query) ([]sessiondb.Hit, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Hit, error) { return s.Search(ctx, q) })
}

func (k keptStore) Insights(ctx context.Context, w sessiondb.Window) (sessiondb.Insights, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Insights, error) { return s.Insights(ctx, w) })
}

func (k keptStore) LastResults(ctx context.Context, session, tool string, limit int) ([]string, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]string, error) { return s.LastResults(ctx, session, tool, limit) })
}

// Append keeps the rows in the spool where there is no store to take them.
func (k keptStore) Append(ctx context.Context, l sessiondb.Lease, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	store, release, err := k.acquire(ctx)
	if err != nil {
		return nil, sessiondb.SpoolOf(k.path).Append(ctx, l, rows, err)
	}
	defer release()
	return store.Append(ctx, l, rows)
}

// Begin keeps the rows in the spool where there is no store to take them; their turn does not begin then.
func (k keptStore) Begin(ctx context.Context, l sessiondb.Lease, p sessiondb.Pending, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	store, release, err := k.acquire(ctx)
	if err != nil {
		return nil, sessiondb.SpoolOf(k.path).Append(ctx, l, rows, err)
	}
	defer release()
	return store.Begin(ctx, l, p, rows)
}

// End keeps the rows in the spool likewise; that the turn has ended, they tell.
func (k keptStore) End(ctx context.Context, l sessiondb.Lease, turn string, rows []sessiondb.NewMessage) ([]sessiondb.Message, error) {
	store, release, err := k.acquire(ctx)
	if err != nil {
		if len(rows) == 0 {
			return nil, err
		}
		return nil, sessiondb.SpoolOf(k.path).Append(ctx, l, rows, err)
	}
	defer release()
	return store.End(ctx, l, turn, rows)
}

func (k keptStore) Retry(ctx context.Context, l sessiondb.Lease, turn string, free bool) (sessiondb.Pending, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Pending, error) { return s.Retry(ctx, l, turn, free) })
}

func (k keptStore) Mark(ctx context.Context, mark string, turns ...string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Mark(ctx, mark, turns...) })
}

func (k keptStore) Pendings(ctx context.Context) ([]sessiondb.Pending, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Pending, error) { return s.Pendings(ctx) })
}

func (k keptStore) Accept(ctx context.Context, w sessiondb.Waiting, limit int, run *sessiondb.NewRun) (int, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (int, error) { return s.Accept(ctx, w, limit, run) })
}

func (k keptStore) DropUnbegun(ctx context.Context, before time.Time) ([]string, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]string, error) { return s.DropUnbegun(ctx, before) })
}

func (k keptStore) Withdraw(ctx context.Context, uid string) (bool, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (bool, error) { return s.Withdraw(ctx, uid) })
}

func (k keptStore) Inbox(ctx context.Context, session string) ([]sessiondb.Waiting, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Waiting, error) { return s.Inbox(ctx, session) })
}

func (k keptStore) Tried(ctx context.Context, uids ...string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Tried(ctx, uids...) })
}

func (k keptStore) LastRequest(ctx context.Context, session string) (out sessiondb.Asked, found bool, err error) {
	err = k.do(ctx, func(s *sessiondb.Store) error {
		out, found, err = s.LastRequest(ctx, session)
		return err
	})
	return out, found, err
}

func (k keptStore) Repair(ctx context.Context, l sessiondb.Lease, repairs []sessiondb.RowRepair) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Repair(ctx, l, repairs) })
}

func (k keptStore) AddUsage(ctx context.Context, d sessiondb.UsageDelta) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.AddUsage(ctx, d) })
}

func (k keptStore) AcquireCompaction(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Lease, error) { return s.AcquireCompaction(ctx, session, h, ttl) })
}

func (k keptStore) CompactionState(ctx context.Context, session string) (sessiondb.CompactionState, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.CompactionState, error) { return s.CompactionState(ctx, session) })
}

func (k keptStore) SetCompactionState(ctx context.Context, l sessiondb.Lease, st sessiondb.CompactionState) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.SetCompactionState(ctx, l, st) })
}

func (k keptStore) ArchiveAndCompact(ctx context.Context, c sessiondb.Compaction) (sessiondb.Compacted, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Compacted, error) { return s.ArchiveAndCompact(ctx, c) })
}

func (k keptStore) AcquireTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Lease, error) { return s.AcquireTurn(ctx, session, h, ttl) })
}

func (k keptStore) TryTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Lease, error) { return s.TryTurn(ctx, session, h, ttl) })
}

func (k keptStore) Renew(ctx context.Context, l sessiondb.Lease) (sessiondb.Lease, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Lease, error) { return s.Renew(ctx, l) })
}

// Release is spooled like the rows that it ends.
func (k keptStore) Release(ctx context.Context, l sessiondb.Lease) error {
	store, release, err := k.acquire(ctx)
	if err != nil {
		return sessiondb.SpoolOf(k.path).Release(ctx, l, err)
	}
	defer release()
	return store.Release(ctx, l)
}

func (k keptStore) Break(ctx context.Context, l sessiondb.Lease) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Break(ctx, l) })
}

func (k keptStore) Leases(ctx context.Context) ([]sessiondb.Lease, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Lease, error) { return s.Leases(ctx) })
}
