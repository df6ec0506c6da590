package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// refuse adds one problem. thing names the place, "/home/a/.gatewayd/config.yaml:12: api.addr".
func (l *loader) refuse(thing, what, remedy string, err error) {
	l.problems = append(l.problems, &problem.Error{Kind: problem.Config, Thing: thing, What: what, Remedy: remedy, Err: err})
}

// foreign are keys of the Python original and of older habits, with what they are here.
var foreign = map[string]string{
	"api_max_retries": "model.max_retries", "timeout": "model.request_timeout", "timeout_seconds": "model.request_timeout", "request_timeout_seconds": "model.request_timeout",
	"first_token": "model.first_token_timeout", "stale_timeout_seconds": "model.stall_timeout", "stale_timeout": "model.stall_timeout", "stream_timeout": "model.stall_timeout", "read_timeout": "model.stall_timeout",
	"fallback_providers": "model.fallbacks", "fallback_models": "model.fallbacks", "api_mode": "model.api", "key_env": "model.api_key_env", "default": "model.name", "dispatch_in_gateway": "kanban.dispatch",
	"dispatch_interval_seconds": "kanban.interval", "dispatch_stale_timeout_seconds": "kanban.stale_timeout",
	"max_in_progress_per_profile": "kanban.max_in_progress_per_lane", "max_spawn": "kanban.max_in_progress",
	"max_turns": "agent.max_iterations", "worker_log_rotate_bytes": "kanban.log_max_bytes",
	"notify_in_gateway": "kanban.notify.enabled",
	"host":              "api.addr", "port": "api.addr", "listen": "api.addr", "cwd": "tools.workdir",
}

func (l *loader) refuseUnknown(prefix, name string, section reflect.Type, place string) {
	remedy := "`gatewayd config show` lists all settings"
	if guess := l.nearestKey(prefix, name, section); guess != "" {
		remedy = "did you mean " + guess + "?"
	}
	if name == "api_key" {
		remedy = "keys are not kept in this file: name a file in model.api_key_file or a variable in model.api_key_env"
	}
	if name == "secret" {
		remedy = "secrets are not kept in this file: name a file in secret_file or a variable in secret_env"
	}
	if mutation.On("misspelt-key-is-passed-over") {
		return
	}
	l.refuse(place+": "+prefix+name, "is not a setting", remedy, nil)
}

// nearestKey looks among the brothers first, then for the same or a like name in any section.
func (l *loader) nearestKey(prefix, name string, section reflect.Type) string {
	var brothers []string
	for i := range section.NumField() {
		if tag := section.Field(i).Tag.Get("yaml"); tag != "-" {
			brothers = append(brothers, tag)
		}
	}
	if guess := Nearest(name, brothers); guess != "" {
		return prefix + guess
	}
	if known := foreign[strings.ToLower(name)]; known != "" {
		return known
	}
	leaves := map[string]string{}
	fresh := Default()
	for s := range settings(&fresh) {
		leaves[s.key[strings.LastIndex(s.key, ".")+1:]] = s.key
	}
	return leaves[Nearest(name, sortedKeys(reflect.ValueOf(leaves)))]
}

// Nearest gives the candidate with the fewest edits, if they are few for a word of that length, else "".
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	folded := fold(word)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(folded, fold(c)); d < bestDistance && d < max(len(folded), len(c)) {
			best, bestDistance = c, d
		}
	}
	return best
}

// fold makes base-url, baseURL and base_url one word.
func fold(word string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, prev, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(y)]
}

// assign writes a text, from a variable or a flag, into the setting of that key.
func (l *loader) assign(key, text string, from Origin, u unit) {
	for s := range settings(&l.Config) {
		if s.key != key {
			continue
		}
		if err := parse(s.value, text, u); err != nil {
			l.refuse(from.Place, fmt.Sprintf("(%s) %v", key, err), "", nil)
			return
		}
		from.Value = render(s.value)
		l.set(key, from)
		return
	}
	l.refuse(from.Place, "is not a setting", "`gatewayd config show` lists all settings", nil)
}
