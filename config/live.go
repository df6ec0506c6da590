package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Moments from which a changed setting counts in a running daemon.
const (
	LiveMessage = "from the next message on"
	LiveWorker  = "from the next worker on"
	LiveNow     = "at once"
)

// live says from when on a setting counts in a running daemon, by its key or the beginning of it; the longest that fits decides.
// A setting that is not here counts from the next start on: files that are open, an address that is bound, servers that run.
var live = map[string]string{
	"model.": LiveMessage, "auxiliary.": LiveMessage, "compression.": LiveMessage,
	"model.max_concurrent": "", "model.requests_per_minute": "", // the gate that they bound is shared with workers that run
	"agent.max_iterations": LiveMessage, "agent.turn_stall_timeout": LiveMessage, "agent.batch_timeout": LiveMessage, "agent.loop_hard_stop": LiveMessage,
	"tools.terminal": LiveMessage, "tools.files": LiveMessage, "tools.allow": LiveMessage,
	"kanban.": LiveWorker, "kanban.root": "", "kanban.dispatch": "", "kanban.notify": "", "kanban.busy_patience": "", "kanban.auto_subscribe_on_create": "",
	"kanban.interval": "",
	"log.level":       LiveNow,
}

// Live says from when on a setting counts in a running daemon; empty is from the next start on.
func Live(key string) (when string) {
	longest := -1
	for begin, moment := range live {
		fits := key == begin || strings.HasSuffix(begin, ".") && strings.HasPrefix(key, begin) || strings.HasPrefix(key, begin+".")
		if fits && len(begin) > longest {
			longest, when = len(begin), moment
		}
	}
	return when
}

// Change is a setting that differs between two readings.
type Change struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
	// Live is from when on it counts; empty: from the next start on.
	Live string `json:"live,omitempty"`
	// Place is where the new value comes from.
	Place string `json:"place,omitempty"`
}

// Changes lists what differs in a later reading, in the order of its rows; what is gone comes last. Secrets are marks in it.
func (l Loaded) Changes(later Loaded) (list []Change) {
	before, held, holds := map[string]Row{}, l.held(), later.held()
	for _, row := range l.Rows() {
		before[row.Key] = row
	}
	for _, row := range later.Rows() {
		was := before[row.Key]
		delete(before, row.Key)
		if was.Value != row.Value || held[row.Key] != holds[row.Key] {
			list = append(list, Change{Key: row.Key, From: was.Value, To: row.Value, Live: Live(row.Key), Place: row.Place})
		}
	}
	for _, row := range l.Rows() {
		if _, gone := before[row.Key]; gone {
			list = append(list, Change{Key: row.Key, From: row.Value, Live: Live(row.Key)})
		}
	}
	return list
}

// held are the secrets themselves by the key of the row that stands for them, to be compared and never shown: a file or a variable
// may hold another one while the setting that names it stays as it is.
func (l Loaded) held() map[string]string {
	all := map[string]string{"model.api_key": l.Model.APIKey.Reveal()}
	for i, f := range l.Model.Fallbacks {
		all[fmt.Sprintf("model.fallbacks[%d].api_key", i)] = f.APIKey.Reveal()
	}
	all["auxiliary.compression.api_key"], all["auxiliary.micro_compaction.api_key"] = l.Auxiliary.Compression.APIKey.Reveal(), l.Auxiliary.MicroCompaction.APIKey.Reveal()
	for name, hook := range l.Kanban.Notify.Webhooks {
		all[notifyKey+".webhooks."+name+".secret"] = hook.Key.Reveal()
	}
	for name, server := range l.MCPServers {
		all[mcpKey+"."+name+".env"], all[mcpKey+"."+name+".headers"] = joined(server.Filled.Env), joined(server.Filled.Headers)
	}
	return all
}

func joined(secrets map[string]Secret) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		fmt.Fprintf(&out, "%q=%q\n", name, secrets[name].Reveal())
	}
	return out.String()
}

// Secrets are the values that no model, board or log may be shown, whatever they look like.
func (l Loaded) Secrets() (secrets []string) {
	secrets = []string{l.Model.APIKey.Reveal(), l.Auxiliary.Compression.APIKey.Reveal(), l.Auxiliary.MicroCompaction.APIKey.Reveal()}
	for _, f := range l.Model.Fallbacks {
		secrets = append(secrets, f.APIKey.Reveal())
	}
	for _, hook := range l.Kanban.Notify.Webhooks {
		secrets = append(secrets, hook.Key.Reveal())
	}
	return secrets
}

// Taking gives these settings with the live ones of a later reading: what a daemon that goes on has from then on.
func (l Loaded) Taking(later Loaded) Loaded {
	taken := l
	adopt(reflect.ValueOf(&taken.Config).Elem(), reflect.ValueOf(later.Config), "")
	taken.Model.APIKey, taken.Auxiliary.Compression.APIKey, taken.Auxiliary.MicroCompaction.APIKey =
		later.Model.APIKey, later.Auxiliary.Compression.APIKey, later.Auxiliary.MicroCompaction.APIKey
	taken.Warnings = slices.Clone(later.Warnings)
	taken.Origins = map[string]Origin{}
	for key, origin := range l.Origins {
		if Live(key) == "" {
			taken.Origins[key] = origin
		}
	}
	for key, origin := range later.Origins {
		if Live(key) != "" {
			taken.Origins[key] = origin
		}
	}
	return taken
}

// adopt sets the live fields of a section from those of another.
func adopt(dst, src reflect.Value, prefix string) {
	for i := range dst.NumField() {
		name := dst.Type().Field(i).Tag.Get("yaml")
		if name == "-" {
			continue
		}
		switch key := prefix + name; {
		case isSection(dst.Field(i).Type()):
			adopt(dst.Field(i), src.Field(i), key+".")
		case Live(key) != "":
			dst.Field(i).Set(src.Field(i))
		}
	}
}
