package main

import (
	"context"

	"gatewayd/sessiondb"
)

// What commands and the addresses of conversations ask of the store.

func (k keptStore) Resolve(ctx context.Context, n sessiondb.NewSession) (session sessiondb.Session, made bool, err error) {
	session, err = lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) {
		got, fresh, err := s.Resolve(ctx, n)
		made = fresh
		return got, err
	})
	return session, made, err
}

func (k keptStore) SessionByKey(ctx context.Context, key string) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.SessionByKey(ctx, key) })
}

func (k keptStore) Receipt(ctx context.Context, session, turn string, first, last int64) (sessiondb.Receipt, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Receipt, error) { return s.Receipt(ctx, session, turn, first, last) })
}

func (k keptStore) SetTitle(ctx context.Context, id, title string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.SetTitle(ctx, id, title) })
}

func (k keptStore) ChangeSettings(ctx context.Context, session string, change func(*sessiondb.Settings)) (sessiondb.Settings, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Settings, error) { return s.ChangeSettings(ctx, session, change) })
}

func (k keptStore) TakeModel(ctx context.Context, session string) (sessiondb.Settings, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Settings, error) { return s.TakeModel(ctx, session) })
}

func (k keptStore) Usage(ctx context.Context, session string) (sessiondb.Usage, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Usage, error) { return s.Usage(ctx, session) })
}

func (k keptStore) RewindTurns(ctx context.Context, l sessiondb.Lease, turn int) (sessiondb.Rewound, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Rewound, error) { return s.RewindTurns(ctx, l, turn) })
}

func (k keptStore) BeginAnew(ctx context.Context, l sessiondb.Lease, n sessiondb.NewSession) (sessiondb.Anew, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Anew, error) { return s.BeginAnew(ctx, l, n) })
}

func (k keptStore) Bind(ctx context.Context, key, session string) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.Bind(ctx, key, session) })
}

func (k keptStore) Find(ctx context.Context, text string) ([]sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Session, error) { return s.Find(ctx, text) })
}

func (k keptStore) Settings(ctx context.Context, session string) (sessiondb.Settings, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Settings, error) { return s.Settings(ctx, session) })
}

func (k keptStore) ClaimOnce(ctx context.Context, o sessiondb.Once) (held sessiondb.Once, mine bool, err error) {
	held, err = lent(k, ctx, func(s *sessiondb.Store) (got sessiondb.Once, err error) {
		got, mine, err = s.ClaimOnce(ctx, o)
		return got, err
	})
	return held, mine, err
}

func (k keptStore) SettleOnce(ctx context.Context, o sessiondb.Once) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.SettleOnce(ctx, o) })
}

func (k keptStore) DropOnce(ctx context.Context, o sessiondb.Once) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.DropOnce(ctx, o) })
}

func (k keptStore) ExpireOnce(ctx context.Context) (int, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (int, error) { return s.ExpireOnce(ctx) })
}

func (k keptStore) Said(ctx context.Context, uid string) (said sessiondb.Said, found bool, err error) {
	said, err = lent(k, ctx, func(s *sessiondb.Store) (got sessiondb.Said, err error) {
		got, found, err = s.Said(ctx, uid)
		return got, err
	})
	return said, found, err
}
