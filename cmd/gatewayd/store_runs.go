package main

import (
	"context"
	"time"

	"gatewayd/sessiondb"
)

// What runs and responses ask of the store.

func (k keptStore) AppendRun(ctx context.Context, id string, change sessiondb.RunChange, events []sessiondb.RunEvent) ([]sessiondb.RunEvent, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.RunEvent, error) { return s.AppendRun(ctx, id, change, events) })
}

func (k keptStore) Run(ctx context.Context, id string) (sessiondb.Run, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Run, error) { return s.Run(ctx, id) })
}

func (k keptStore) Runs(ctx context.Context, f sessiondb.RunFilter) ([]sessiondb.Run, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Run, error) { return s.Runs(ctx, f) })
}

func (k keptStore) RunEvents(ctx context.Context, id string, after int64, limit int) ([]sessiondb.RunEvent, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.RunEvent, error) { return s.RunEvents(ctx, id, after, limit) })
}

func (k keptStore) KeepRuns(ctx context.Context, age time.Duration, most int) (int, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (int, error) { return s.KeepRuns(ctx, age, most) })
}

func (k keptStore) TurnOf(ctx context.Context, uid string) ([]sessiondb.Message, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Message, error) { return s.TurnOf(ctx, uid) })
}

func (k keptStore) PutResponse(ctx context.Context, r sessiondb.Response) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.PutResponse(ctx, r) })
}

func (k keptStore) ContinueResponse(ctx context.Context, r, before sessiondb.Response) (bool, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (bool, error) { return s.ContinueResponse(ctx, r, before) })
}

func (k keptStore) EndResponse(ctx context.Context, r sessiondb.Response) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.EndResponse(ctx, r) })
}

func (k keptStore) Response(ctx context.Context, owner, id string) (sessiondb.Response, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Response, error) { return s.Response(ctx, owner, id) })
}

func (k keptStore) ResponseOf(ctx context.Context, owner, uid string) (one sessiondb.Response, found bool, err error) {
	err = k.do(ctx, func(s *sessiondb.Store) error {
		one, found, err = s.ResponseOf(ctx, owner, uid)
		return err
	})
	return one, found, err
}

func (k keptStore) DeleteResponse(ctx context.Context, owner, id string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.DeleteResponse(ctx, owner, id) })
}

func (k keptStore) KeepResponses(ctx context.Context, age time.Duration, most int) (int, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (int, error) { return s.KeepResponses(ctx, age, most) })
}

func (k keptStore) Fork(ctx context.Context, from string, upTo int64, n sessiondb.NewSession) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.Fork(ctx, from, upTo, n) })
}

func (k keptStore) Found(ctx context.Context, n sessiondb.NewSession, rows []sessiondb.NewMessage) (sessiondb.Session, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Session, error) { return s.Found(ctx, n, rows) })
}

func (k keptStore) SetFlags(ctx context.Context, id string, f sessiondb.SessionFlags) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.SetFlags(ctx, id, f) })
}

func (k keptStore) EndSession(ctx context.Context, id, reason string) (bool, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (bool, error) { return s.EndSession(ctx, id, reason) })
}

func (k keptStore) Reopen(ctx context.Context, id string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Reopen(ctx, id) })
}

func (k keptStore) Delete(ctx context.Context, ids ...string) (sessiondb.Deleted, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Deleted, error) { return s.Delete(ctx, ids...) })
}
