package hermeshome

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gatewayd/config"
)

// translation turns the settings of Hermes into candidates, each leaf into one.
type translation struct {
	tree map[string]any
	used map[string]bool // variables that a candidate asks for
	list []candidate
}

func (t *translation) all() {
	if name, ok := t.tree["model"].(string); ok { // the short form
		t.tree["model"] = map[string]any{"default": name}
	}
	t.walk("", t.tree)
}

func (t *translation) walk(prefix string, at map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(at)) {
		key, value := prefix+name, at[name]
		below, section := value.(map[string]any)
		switch {
		case value == nil, section && len(below) == 0:
			// says nothing
		case prefix == "mcp_servers.":
			t.server(name, value)
		case section:
			t.walk(key+".", below)
		default:
			t.leaf(key, value)
		}
	}
}

func (t *translation) skip(key, format string, args ...any) {
	t.list = append(t.list, candidate{from: key, why: fmt.Sprintf(format, args...)})
}

func (t *translation) refuse(key, why string) {
	t.list = append(t.list, candidate{from: key, why: why, refuse: true})
}

func (t *translation) take(key, to string, value any) {
	t.list = append(t.list, candidate{from: key, to: to, value: fit(to, value)})
}

func (t *translation) leaf(key string, value any) {
	to := equals[key]
	if rest, ok := strings.CutPrefix(key, "compression."); ok && to == "" && known["compression."+rest].Value != "" {
		to = key
	}
	switch {
	case key == "model.provider", key == "model.api_key":
		t.model(key, value)
	case key == "approvals.mode":
		t.approvals(value)
	case key == "fallback_providers":
		t.fallbacks(value)
	case strings.HasPrefix(key, "providers."):
		t.provider(key, value)
	case key == "terminal.backend" && value == "local":
		t.skip(key, "that is how it is here")
	case key == "terminal.cwd" && !filepath.IsAbs(fmt.Sprint(value)):
		t.skip(key, "is no absolute path; commands run in the home's workspace unless tools.workdir says otherwise")
	case key == "command_allowlist" && slices.ContainsFunc(words(value), func(w string) bool { return strings.Trim(w, "* ") == "" }):
		t.refuse(key, "allows every command; say in tools.terminal what you want")
	case to != "" && len(references(value)) > 0:
		t.skip(key, "is made of a variable; set %s yourself", to)
	case to != "":
		t.take(key, to, value)
	default:
		t.skip(key, "%s", whyNot(key))
	}
}

func whyNot(key string) string {
	for at := key; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
		if why := unequal[at]; why != "" {
			return why
		}
	}
	return "has no equal here"
}

// approvals: what asks a person goes on asking. That nobody is asked is for the new owner to say.
func (t *translation) approvals(value any) {
	switch fmt.Sprint(value) {
	case "manual", "smart":
		t.take("approvals.mode", "tools.terminal", "ask")
	case "off", "false":
		t.refuse("approvals.mode", "lets every command run unasked; if you want that, set tools.terminal: allow yourself")
	default:
		t.skip("approvals.mode", "is no mode that is known")
	}
}

// chosen is the provider of the model.
func (t *translation) chosen() string { return text(t.tree, "model", "provider") }

// model says where the model is and which key opens it.
func (t *translation) model(key string, value any) {
	id := t.chosen()
	if key == "model.api_key" {
		t.keyOf(key, "model.api_key_env", fmt.Sprint(value), "IMPORTED_MODEL_API_KEY")
		return
	}
	at, named := providers[id]
	url := cmp.Or(text(t.tree, "providers", id, "base_url"), at.url)
	switch {
	case text(t.tree, "model", "base_url") != "":
		t.skip(key, "model.base_url says where the model is")
	case id == "auto", id == "custom" && url == "":
		t.skip(key, "gatewayd looks for a model by itself where model.base_url is not set")
	case url == "":
		t.skip(key, "its address is not known here: set model.base_url")
	case text(t.tree, "providers", id, "base_url") != "":
		t.skip(key, "providers.%s.base_url says where the model is", id)
	default:
		t.take(key, "model.base_url", url)
	}
	hasKey := text(t.tree, "providers", id, "key_env") != "" || text(t.tree, "model", "api_key") != ""
	if named && !hasKey {
		t.used[at.key] = true
		t.list = append(t.list, candidate{from: "model.provider's key " + at.key, to: "model.api_key_env", value: at.key})
	}
}

// keyOf brings a key that stands in a setting into .env, or takes the variable that it names.
func (t *translation) keyOf(key, to, value, name string) {
	if refs := references(value); len(refs) == 1 && value == "${"+refs[0]+"}" {
		t.used[refs[0]] = true
		t.take(key, to, refs[0])
		return
	}
	t.list = append(t.list, candidate{from: key, to: to, value: name, keys: map[string]string{name: value}})
}

// provider takes what says how the chosen provider is reached. What a fallback says of another goes with that.
func (t *translation) provider(key string, value any) {
	parts := strings.SplitN(key, ".", 3)
	id, name := parts[1], parts[len(parts)-1]
	if id != t.chosen() {
		if slices.Contains(t.fallbackIDs(), id) && (name == "base_url" || name == "key_env" || name == "api_mode") {
			t.list = append(t.list, candidate{from: key, to: "model.fallbacks", done: true})
			return
		}
		t.skip(key, "no model that was brought is there")
		return
	}
	switch name {
	case "base_url":
		t.take(key, "model.base_url", value)
	case "key_env":
		t.used[fmt.Sprint(value)] = true
		t.take(key, "model.api_key_env", value)
	case "api_key":
		t.keyOf(key, "model.api_key_env", fmt.Sprint(value), "IMPORTED_MODEL_API_KEY")
	case "api_mode":
		if wire := wires[fmt.Sprint(value)]; wire != "" {
			t.take(key, "model.api", wire)
			return
		}
		t.skip(key, "is a protocol that gatewayd does not speak")
	case "request_timeout_seconds":
		t.take(key, "model.request_timeout", value)
	case "stale_timeout_seconds":
		t.take(key, "model.stall_timeout", value)
	default:
		t.skip(key, "has no equal here")
	}
}

func (t *translation) fallbackIDs() (ids []string) {
	list, _ := t.tree["fallback_providers"].([]any)
	for _, entry := range list {
		if at, ok := entry.(map[string]any); ok {
			ids = append(ids, text(at, "provider"))
		}
	}
	return ids
}

// fallbacks come together or not at all: their order means something.
func (t *translation) fallbacks(value any) {
	const key = "fallback_providers"
	list, ok := value.([]any)
	if !ok {
		t.skip(key, "is no list")
		return
	}
	var out []any
	for _, entry := range list {
		at, _ := entry.(map[string]any)
		id := text(at, "provider")
		one := map[string]any{}
		for name, v := range map[string]string{
			"base_url": cmp.Or(text(at, "base_url"), text(t.tree, "providers", id, "base_url"), providers[id].url), "name": text(at, "model"),
			"api_key_env": cmp.Or(text(at, "key_env"), text(t.tree, "providers", id, "key_env"), providers[id].key),
			"api":         wires[text(t.tree, "providers", id, "api_mode")],
		} {
			if v != "" {
				one[name] = v
			}
		}
		if one["base_url"] == nil {
			t.skip(key, "the address of %q is not known here: set model.fallbacks", id)
			return
		}
		if name, ok := one["api_key_env"].(string); ok {
			t.used[name] = true
		}
		out = append(out, sorted(one))
	}
	t.take(key, "model.fallbacks", out)
}

// server brings one MCP server. Values that are secrets, and whatever refers to a variable, go by .env.
func (t *translation) server(name string, value any) {
	key := "mcp_servers." + name
	at, ok := value.(map[string]any)
	if !ok || at["enabled"] == false {
		t.skip(key, "is switched off")
		return
	}
	c := candidate{from: key, to: key, keys: map[string]string{}}
	out, lost := map[string]any{}, []string(nil)
	for field, v := range at {
		switch field {
		case "command", "args", "url":
			out[field] = v
		case "env", "headers":
			out[field] = t.hidden(name, v, c.keys)
		case "timeout", "connect_timeout":
			out[field] = duration(v)
		case "tools":
			for _, list := range []string{"include", "exclude"} {
				if tools, ok := v.(map[string]any); ok && tools[list] != nil {
					out[list] = tools[list]
				}
			}
		case "enabled":
		default:
			lost = append(lost, field)
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		t.skip(key, "says things that have no equal here: %s", strings.Join(lost, ", "))
		return
	}
	c.value = out
	t.list = append(t.list, c)
}

// hidden puts secrets into keys and refers to them.
func (t *translation) hidden(server string, v any, keys map[string]string) any {
	at, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for name, v := range at {
		value := fmt.Sprint(v)
		for _, ref := range references(value) {
			t.used[ref] = true
		}
		if config.LooksSecret(name) && len(references(value)) == 0 {
			variable := "IMPORTED_MCP_" + variableName(server) + "_" + variableName(name)
			keys[variable] = value
			value = "${" + variable + "}"
		}
		out[name] = value
	}
	return out
}

var notInNames = regexp.MustCompile(`[^A-Z0-9]+`)

func variableName(s string) string { return notInNames.ReplaceAllString(strings.ToUpper(s), "_") }

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// references are the variables that a value is made of.
func references(value any) (names []string) {
	for _, match := range reference.FindAllStringSubmatch(fmt.Sprint(value), -1) {
		names = append(names, match[1])
	}
	return names
}

// known is what settings there are, with their defaults.
var known = config.Defaults()

// fit writes a number of seconds as a duration where that is what we take.
func fit(to string, value any) any {
	if _, err := time.ParseDuration(known[to].Value); err == nil && strings.ContainsAny(known[to].Value, "smh") {
		return duration(value)
	}
	return value
}

func duration(v any) any {
	if d, err := time.ParseDuration(fmt.Sprint(v) + "s"); err == nil {
		return d.String()
	}
	return v
}

// text reads a word below a path, "" where there is none.
func text(at map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		at, _ = at[name].(map[string]any)
	}
	word, _ := at[path[len(path)-1]].(string)
	return word
}

func words(v any) (list []string) {
	all, _ := v.([]any)
	for _, w := range all {
		list = append(list, fmt.Sprint(w))
	}
	return list
}
