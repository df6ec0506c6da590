package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// originGate keeps web pages out. A page of any site can send requests to this machine, and by pointing its own name here (DNS
// rebinding) it could even read the answers; so a Host that is not ours is refused, and so is an Origin that may not call.
type originGate struct {
	hosts   []string
	origins []string
	anyIP   bool // bound to all addresses: each numeric Host is one of ours, and a number cannot be rebound
	cross   *http.CrossOriginProtection
}

func newOriginGate(addr string, hosts, origins []string) *originGate {
	g := &originGate{hosts: []string{"localhost"}, cross: http.NewCrossOriginProtection()}
	for _, host := range hosts {
		g.hosts = append(g.hosts, hostName(host))
	}
	bound, _, err := net.SplitHostPort(addr)
	if err == nil {
		ip, err := netip.ParseAddr(bound)
		g.anyIP = bound == "" || err == nil && ip.IsUnspecified()
		g.hosts = append(g.hosts, strings.ToLower(bound))
	}
	for _, origin := range origins {
		if g.cross.AddTrustedOrigin(origin) == nil {
			g.origins = append(g.origins, origin)
		}
	}
	return g
}

// check is the middleware. A preflight of an allowed origin is answered here.
func (g *originGate) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.ours(r.Host) {
			e := &refusal{status: http.StatusForbidden, code: "host_not_allowed", message: fmt.Sprintf("the Host %.200q is not one of this daemon's; add it to api.allowed_hosts if it is", r.Host)}
			writeJSON(w, e.status, e.envelope())
			return
		}
		if !g.mayCall(r) {
			e := &refusal{status: http.StatusForbidden, code: "origin_not_allowed", message: fmt.Sprintf("the Origin %.200q may not call this daemon; add it to api.allowed_origins if it may", r.Header.Get("Origin"))}
			if r.Header.Get("Origin") == "" {
				e.message = fmt.Sprintf("the browser calls this a %.20s request and names no Origin; pages of other sites may not call this daemon", r.Header.Get("Sec-Fetch-Site"))
			}
			writeJSON(w, e.status, e.envelope())
			return
		}
		if g.shared(w, r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ours reports whether a Host header names this daemon. The port is not looked at: it may have been forwarded.
func (g *originGate) ours(host string) bool {
	name := hostName(host)
	if slices.Contains(g.hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && (ip.IsLoopback() || g.anyIP)
}

// mayCall asks the standard's protection, which passes reads; a read with a foreign Origin is refused as well.
func (g *originGate) mayCall(r *http.Request) bool {
	if r.Header.Get("Origin") == "" {
		return g.cross.Check(r) == nil
	}
	asWrite := *r
	asWrite.Method = http.MethodPost
	return g.cross.Check(&asWrite) == nil
}

// shared adds the headers by which a browser lets an allowed origin read the answer. True means it was a preflight.
func (g *originGate) shared(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	w.Header().Add("Vary", "Origin")
	if !slices.Contains(g.origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", strings.Join([]string{headerSession, aliasSession, headerTurn, "Retry-After"}, ", "))
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE, HEAD, OPTIONS")
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// hostName is a Host without port, brackets, final dot and upper case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
