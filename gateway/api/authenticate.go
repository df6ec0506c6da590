package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"gatewayd/gateway/keys"
	"gatewayd/internal/mutation"
)

// authenticate lets a request of somebody known through. On loopback too: every program and every web page of this machine can reach
// it, and these routes start processes. What is under way ends with its caller's key.
func (s *server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.identify(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, done := s.Keys.Hold(keys.With(r.Context(), caller), caller)
		defer done()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// identify finds out who a request comes from. The key in its header goes before a cookie: a program that sends one means it.
func (s *server) identify(r *http.Request) (keys.Caller, error) {
	if caller, known := keys.Who(r.Context()); known { // it came by the socket
		return caller, nil
	}
	if r.Header.Get("Authorization") != "" {
		return s.byKey(bearer(r), r.RemoteAddr)
	}
	caller, _, ok := s.Keys.ByCookie(cookies(r))
	if !ok {
		return keys.Caller{}, errKey()
	}
	if !mayUseCookie(r) && !mutation.On("cookie-from-anywhere") {
		return keys.Caller{}, &refusal{
			status: http.StatusForbidden, code: "same_origin_required",
			message: "a browser's login counts for requests of this daemon's own pages alone, and this one does not say that it is one; other programs send a key",
		}
	}
	return caller, nil
}

func (s *server) byKey(text, address string) (keys.Caller, error) {
	key, wait, ok := s.Keys.Ask(text, address)
	switch {
	case ok:
		return keys.Caller{Key: key, Door: keys.DoorKey}, nil
	case wait > 0:
		return keys.Caller{}, errWrongOften(wait)
	}
	return keys.Caller{}, errKey()
}

// bearer is the text that a request shows, empty where it shows none.
func bearer(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

func cookies(r *http.Request) (values []string) {
	for _, c := range r.CookiesNamed(keys.Cookie) {
		values = append(values, c.Value)
	}
	return values
}

// mayUseCookie reports whether a cookie counts. A browser sends it with what pages on other ports of this host ask for, too: SameSite knows no
// ports. So what changes something must say that it comes from a page of ours, and what only looks must not say that it comes from elsewhere,
// unless a person follows a link to a page.
func mayUseCookie(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return sameOrigin(r)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && !forPrograms(r)
}

// sameOrigin reports whether the browser itself says that a page of ours asks. Silence is no yes.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

func errKey() *refusal {
	return &refusal{
		status: http.StatusUnauthorized, code: "invalid_api_key",
		message: "the API key is missing or wrong; send `Authorization: Bearer KEY` with a key of this daemon: the first one is in the file api.key in its home, `gatewayd keys add` makes more",
	}
}

func errWrongOften(wait time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "too_many_wrong_keys", retryAfter: wait,
		message: "the API key is wrong, and so were many that came from this address; a right one is let in at any time",
	}
}
