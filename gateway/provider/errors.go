package provider

import (
	"fmt"
	"strings"
	"time"
)

// Class is what kind of failure it was, which decides what may be tried next.
type Class string

// The classes. Retried here: rate limit, overloaded, server error, timeout, transport, and unknown ones once.
const (
	Auth            Class = "auth"                // the key is missing, wrong or not allowed
	Billing         Class = "billing"             // the account has no money or quota left
	RateLimit       Class = "rate_limit"          // too many requests; RetryAfter may say how long
	UpstreamLimit   Class = "upstream_rate_limit" // an aggregator's own provider is limited; our key is not
	Overloaded      Class = "overloaded"          // the server has no room; waiting longer helps
	ServerError     Class = "server_error"        // the server failed on its own
	Timeout         Class = "timeout"             // no first token, or silence in the middle
	Transport       Class = "transport"           // no connection, a dropped stream, or bytes that are no answer
	ContextOverflow Class = "context_overflow"    // the conversation does not fit the model's window
	PayloadTooLarge Class = "payload_too_large"   // the request's bytes were refused
	ModelNotFound   Class = "model_not_found"     // no such model or no such address on this server
	ContentPolicy   Class = "content_policy"      // the provider refuses this content
	FormatError     Class = "format_error"        // the server does not accept this request; repeating it is useless
	Interrupted     Class = "interrupted"         // the caller's context ended; Err holds its cause
	Breaker         Class = "breaker"             // refused here without a call, because the last ones all went stale
	Unknown         Class = "unknown"
)

// Error is why a model call did not answer. Message is one line without credentials, Remedy what a person can do. Partial holds
// the text and reasoning that had arrived, never a tool call.
type Error struct {
	Class      Class
	Status     int           // HTTP status, 0 when there was none
	RetryAfter time.Duration // what the server asked for, or until the breaker's next probe; 0 when unsaid
	Limit      int           // context_overflow: the window in tokens when the message told it
	Attempts   int           // calls made, this one included
	Message    string
	Remedy     string
	Partial    Response
	Err        error // cause

	words string // everything the server said, in lower case, for those who look for what to mend
}

// Passes reports whether the trouble may be over by itself, so that the same request is worth sending again later.
func (c Class) Passes() bool {
	switch c {
	case RateLimit, UpstreamLimit, Overloaded, ServerError, Timeout, Transport, Breaker, Unknown:
		return true
	}
	return false
}

// Error gives class, message, number of attempts and remedy in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model call failed (%s): %s", e.Class, e.Message)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Unwrap gives the cause; for an interrupted call that is the cause of the caller's context.
func (e *Error) Unwrap() error { return e.Err }
