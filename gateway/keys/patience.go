package keys

import (
	"net/netip"
	"sync"
	"time"
)

// What wrong keys cost an address: so many are free, and each is forgotten after its time.
const (
	wrongFree     = 10
	wrongForgets  = 6 * time.Second
	addressesMost = 4096 // that are remembered; with more the one that was heard longest ago is forgotten
)

// Patience counts wrong keys by the address they came from. It is safe for concurrent use; the zero value is ready.
type Patience struct {
	mu    sync.Mutex
	wrong map[netip.Prefix]strike
}

// strike is a bucket that drips: until says when it is empty again.
type strike struct{ until time.Time }

// Wrong counts a wrong key and gives how long its address has to wait; zero while it need not.
func (p *Patience) Wrong(address string, now time.Time) time.Duration {
	at := network(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrong == nil {
		p.wrong = map[netip.Prefix]strike{}
	}
	s, known := p.wrong[at]
	if !known && len(p.wrong) >= addressesMost {
		p.forget(now)
	}
	if s.until.Before(now) {
		s.until = now
	}
	s.until = minTime(s.until.Add(wrongForgets), now.Add(2*wrongFree*wrongForgets))
	p.wrong[at] = s
	return s.wait(now)
}

// Wait is how long an address still has to wait.
func (p *Patience) Wait(address string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong[network(address)].wait(now)
}

func (s strike) wait(now time.Time) time.Duration {
	return max(0, s.until.Sub(now)-wrongFree*wrongForgets)
}

// forget drops what is over, and if nothing is, the one that is over first.
func (p *Patience) forget(now time.Time) {
	var first netip.Prefix
	for at, s := range p.wrong {
		if !s.until.After(now) {
			delete(p.wrong, at)
		} else if old, ok := p.wrong[first]; !ok || s.until.Before(old.until) {
			first = at
		}
	}
	if len(p.wrong) >= addressesMost {
		delete(p.wrong, first)
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// network is what one person has of an address: all of IPv4's, the first half of IPv6's.
func network(address string) netip.Prefix {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // nobody's, and all of those share
	}
	addr, bits := ap.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
