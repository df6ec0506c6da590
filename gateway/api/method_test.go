package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A method that a path does not have is refused in the envelope, by name, with those that it has; nobody hears of it.
func TestEveryPathRefusesAnotherMethodByName(t *testing.T) {
	h, chat := plain(nil)
	has := map[string][]string{} // pattern → methods
	for _, route := range slices.Sorted(maps.Keys(routesOf(t, h))) {
		method, pattern, _ := strings.Cut(route, " ")
		has[pattern] = append(has[pattern], method)
	}
	tried := 0
	for pattern := range has {
		var allowed []string
		for other, methods := range has {
			if leadsTo(other, pattern) {
				allowed = append(allowed, methods...)
			}
		}
		path := pattern
		for strings.Contains(path, "{") {
			from, to := strings.Index(path, "{"), strings.Index(path, "}")
			path = path[:from] + "1" + path[to+1:]
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if slices.Contains(allowed, method) {
				continue
			}
			tried++
			w := ask(h, method, path, "{}")
			message, _ := refused(t, w, http.StatusMethodNotAllowed, "method_not_allowed")["message"].(string)
			allow := strings.Join(w.Header().Values("Allow"), ", ")
			for _, one := range has[pattern] {
				if !strings.Contains(allow, one) {
					t.Errorf("%s %s: Allow is %q, without %s", method, pattern, allow, one)
				}
			}
			if !strings.Contains(message, method) {
				t.Errorf("%s %s: the refusal does not name the method: %s", method, pattern, message)
			}
		}
	}
	if tried < 150 || len(chat.said) != 0 {
		t.Errorf("%d requests were tried, %d heard", tried, len(chat.said))
	}
}

// leadsTo reports whether the path of a pattern is also one of another pattern.
func leadsTo(pattern, path string) bool {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(a, b, func(part, of string) bool { return part == of || strings.HasPrefix(part, "{") })
}
