package api

import (
	"net/http"
	"strings"

	"gatewayd/gateway/keys"
)

// authenticate lets a request of somebody known through. On loopback too: every program and every web page of this machine can reach
// it, and these routes start processes.
func (s *server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.identify(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(keys.With(r.Context(), caller)))
	})
}

// identify finds out who a request comes from. The key in its header goes before a cookie.
func (s *server) identify(r *http.Request) (keys.Caller, error) {
	if caller, known := keys.Who(r.Context()); known { // it came by the socket
		return caller, nil
	}
	if r.Header.Get("Authorization") != "" {
		key, ok := s.Keys.Check(bearer(r))
		if !ok {
			return keys.Caller{}, errKey()
		}
		return keys.Caller{Key: key, Door: keys.DoorKey}, nil
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

func errKey() *refusal {
	return &refusal{
		status: http.StatusUnauthorized, code: "invalid_api_key",
		message: "the API key is missing or wrong; send `Authorization: Bearer KEY` with a key of this daemon: the first one is in the file api.key in its home, `gatewayd keys add` makes more",
	}
}
