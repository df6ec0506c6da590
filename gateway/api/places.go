package api

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"gatewayd/gateway/keys"
)

// places are the streams that are open, by key. A stream costs a descriptor and a goroutine for as long as its client likes, so one key must not
// have all of them.
type places struct {
	most, mostOfKey int

	mu    sync.Mutex
	all   int
	ofKey map[string]int
}

// take takes a place; the reason why there is none is for the client.
func (p *places) take(key string) (free func(), full string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all >= p.most:
		return nil, fmt.Sprintf("%d streams are open, which is as many as this daemon keeps (api.max_streams)", p.all)
	case p.ofKey[key] >= p.mostOfKey:
		return nil, fmt.Sprintf("%d streams are open under this key, which is as many as one may have (api.max_streams_per_key)", p.ofKey[key])
	}
	if p.ofKey == nil {
		p.ofKey = map[string]int{}
	}
	p.all++
	p.ofKey[key]++
	return func() { p.give(key) }, ""
}

func (p *places) give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.ofKey[key]--; p.ofKey[key] == 0 {
		delete(p.ofKey, key)
	}
}

// bounded lets a route that streams for as long as its client likes have one of the places.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, _ := keys.Who(r.Context())
		free, full := s.places.take(caller.Key.ID)
		if full != "" {
			s.fail(w, r, &refusal{status: http.StatusTooManyRequests, code: "too_many_streams", retryAfter: 5 * time.Second, message: full + "; close some"})
			return
		}
		defer free()
		next.ServeHTTP(w, r)
	})
}
