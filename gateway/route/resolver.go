package route

import (
	"context"
	"errors"

	"gatewayd/sessiondb"
)

// Store is what a Resolver needs of sessiondb.Store.
type Store interface {
	Resolve(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, bool, error)
	SessionByKey(ctx context.Context, key string) (sessiondb.Session, error)
}

// Resolver is the one way from a key to its conversation. It is safe for concurrent use, and so are many of them in many
// processes: the store decides.
type Resolver struct{ Store Store }

// Conversation gives the conversation that n.Key leads to, and begins one as n says when there is none; made tells. Asking again
// gives the same one, and whoever asks at the same time gets it too. A key that is not written as Key writes it is refused.
func (r Resolver) Conversation(ctx context.Context, n sessiondb.NewSession) (session sessiondb.Session, made bool, err error) {
	if _, err := Parse(n.Key); err != nil {
		return sessiondb.Session{}, false, err
	}
	return r.Store.Resolve(ctx, n)
}

// Look gives the conversation that a key leads to now, and makes none: there is false when there is none.
func (r Resolver) Look(ctx context.Context, key string) (session sessiondb.Session, there bool, err error) {
	if _, err := Parse(key); err != nil {
		return sessiondb.Session{}, false, err
	}
	session, err = r.Store.SessionByKey(ctx, key)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		return sessiondb.Session{}, false, nil
	}
	return session, err == nil, err
}
