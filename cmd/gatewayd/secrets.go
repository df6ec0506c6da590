package main

import (
	"slices"
	"sync"

	"gatewayd/config"
	"gatewayd/internal/mutation"
)

// secretBook is every value that has been a secret of this process: one that was replaced may still open something, so what was one stays one.
// It is safe for concurrent use.
type secretBook struct {
	mu     sync.Mutex
	values []string
}

func (b *secretBook) learn(values ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		if !slices.Contains(b.values, v) {
			b.values = append(b.values, v)
		}
	}
}

func (b *secretBook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.values)
}

// secretsNow are those that no tool of a board may store at this moment. api.key is read each time: another process may have changed it.
func (d *daemon) secretsNow() []string {
	if key, err := config.ReadAPIKey(d.config.Home); err == nil && !mutation.On("secrets-of-tools-are-those-of-the-start") {
		d.secrets.learn(key.Reveal())
	}
	return d.secrets.all()
}

// keepSecret has the daemon's tools and boards keep these settings' secrets, beside all that came before them.
func (d *daemon) keepSecret(loaded config.Loaded) {
	secrets := secretsOf(loaded)
	d.tools.Learn(secrets...)
	if !mutation.On("secrets-of-tools-are-those-of-the-start") {
		d.secrets.learn(secrets...)
	}
}
