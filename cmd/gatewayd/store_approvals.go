package main

import (
	"context"
	"time"

	"gatewayd/sessiondb"
)

// What gateway.Approvals asks of the store, and what a session keeps of its tools.

func (k keptStore) AskApproval(ctx context.Context, a sessiondb.Approval, wait time.Duration) (sessiondb.Approval, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Approval, error) { return s.AskApproval(ctx, a, wait) })
}

func (k keptStore) DecideApproval(ctx context.Context, id string, v sessiondb.Verdict) (out sessiondb.Approval, won bool, err error) {
	err = k.do(ctx, func(s *sessiondb.Store) error {
		out, won, err = s.DecideApproval(ctx, id, v)
		return err
	})
	return out, won, err
}

func (k keptStore) Approvals(ctx context.Context, f sessiondb.ApprovalFilter) ([]sessiondb.Approval, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Approval, error) { return s.Approvals(ctx, f) })
}

func (k keptStore) Approval(ctx context.Context, id string) (sessiondb.Approval, error) {
	return lent(k, ctx, func(s *sessiondb.Store) (sessiondb.Approval, error) { return s.Approval(ctx, id) })
}

func (k keptStore) CloseApprovals(ctx context.Context, decision, by string) ([]sessiondb.Approval, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Approval, error) { return s.CloseApprovals(ctx, decision, by) })
}

func (k keptStore) Granted(ctx context.Context, session string, rules []string) (granted bool, by string, err error) {
	err = k.do(ctx, func(s *sessiondb.Store) error {
		granted, by, err = s.Granted(ctx, session, rules)
		return err
	})
	return granted, by, err
}

func (k keptStore) Grants(ctx context.Context) ([]sessiondb.Grant, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]sessiondb.Grant, error) { return s.Grants(ctx) })
}

func (k keptStore) Toolset(ctx context.Context, session string) ([]byte, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]byte, error) { return s.Toolset(ctx, session) })
}

func (k keptStore) FixToolset(ctx context.Context, session string, list []byte) ([]byte, error) {
	return lent(k, ctx, func(s *sessiondb.Store) ([]byte, error) { return s.FixToolset(ctx, session, list) })
}

func (k keptStore) Revoke(ctx context.Context, session, rule string) error {
	return k.do(ctx, func(s *sessiondb.Store) error { return s.Revoke(ctx, session, rule) })
}
