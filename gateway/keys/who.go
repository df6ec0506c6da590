package keys

import "context"

// The doors by which a caller comes in.
const (
	DoorKey    = "key"    // Authorization: Bearer
	DoorCookie = "cookie" // a login of the page
	DoorSocket = "socket" // the Unix socket of the home
)

// Caller is who a request comes from.
type Caller struct {
	Key   Key
	Door  string
	login string // hash of the cookie's token
}

// Socket is who comes by the home's socket: the user of the daemon, who can read and write all that it has anyway.
func Socket() Caller {
	return Caller{Key: Key{ID: "socket", Name: "socket", Scopes: []Scope{Admin}}, Door: DoorSocket}
}

type callerKey struct{}

// With puts the caller into a request's context.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Who is the caller of a request that was let in.
func Who(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}
