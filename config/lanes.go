package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholders are what an argv template may name. The dispatcher fills them in, one word each, however many
// spaces the value holds.
var placeholders = map[string]string{
	"task":        "the card's id",
	"run":         "the run's number",
	"board":       "the board's name",
	"db":          "the board's file",
	"lane":        "the lane's name",
	"workspace":   "the directory to work in",
	"branch":      "the card's branch, or nothing",
	"title":       "the card's title",
	"prompt":      "what to do, as one word of text",
	"prompt_file": "a file that holds what to do",
	"home":        "the daemon's home",
	"self":        "the gatewayd program",
}

// Placeholders gives the names that an argv template may use in braces, with what each stands for.
func Placeholders() map[string]string { return maps.Clone(placeholders) }

// placeholder finds {name}. Braces around anything else, as in JSON, are text.
var placeholder = regexp.MustCompile(`\{([a-z][a-z_]*)\}`)

// ExpandArgv fills a template: one word stays one word, and a value is never looked at again for placeholders.
func ExpandArgv(argv []string, values map[string]string) []string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = placeholder.ReplaceAllStringFunc(word, func(name string) string {
			if value, ok := values[name[1:len(name)-1]]; ok {
				return value
			}
			return name
		})
	}
	return words
}

// laneName is the rule of the original for the names of profiles, which lanes stand for.
var laneName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (l *loader) validateLane(name string, lane Lane) {
	key := "kanban.lanes." + name
	at := l.place(key + ".preset")
	if !laneName.MatchString(name) {
		l.refuse(at+": "+key, "must be named with a-z, 0-9, - and _, at most 64 of them", "", nil)
	}
	switch {
	case lane.Preset == "" && len(lane.Argv) == 0:
		l.refuse(at+": "+key, "says neither preset nor argv", "give one of the two", nil)
	case lane.Preset == "command" && len(lane.Argv) == 0:
		l.refuse(at+": "+key, "needs an argv: a command lane runs what you name", "add `argv: [program, word, …]`", nil)
	case lane.Preset == "agent" && len(lane.Argv) > 0:
		l.refuse(l.place(key+".argv")+": "+key+".argv", "has no meaning for preset agent, which runs gatewayd itself",
			"remove it or choose preset command", nil)
	}
	l.validateArgv(key, lane.Argv)
	l.validateLaneEnv(key, lane.Env)
	if lane.Preset == "" && len(lane.Argv) > 0 {
		lane.Preset = "command"
		l.Kanban.Lanes[name] = lane
	}
}

func (l *loader) validateArgv(key string, argv []string) {
	thing := l.place(key+".argv") + ": " + key + ".argv"
	if len(argv) > 0 && strings.TrimSpace(argv[0]) == "" {
		l.refuse(thing, "starts with an empty word", "name the program first", nil)
	}
	if len(argv) > 0 && strings.ContainsRune(argv[0], ' ') && len(argv) == 1 {
		l.refuse(thing, "is one word with spaces: it is never split", "write each word on its own, [program, word, …]", nil)
	}
	for i, word := range argv {
		for _, match := range placeholder.FindAllStringSubmatch(word, -1) {
			l.validatePlaceholder(thing, match[1], i)
		}
	}
}

func (l *loader) validatePlaceholder(thing, name string, position int) {
	if _, known := placeholders[name]; !known {
		all := slices.Sorted(maps.Keys(placeholders))
		remedy := "known are " + strings.Join(all, ", ")
		if guess := nearest(name, all); guess != "" {
			remedy = "did you mean {" + guess + "}?"
		}
		l.refuse(thing, fmt.Sprintf("names {%s}, which is not a placeholder", name), remedy, nil)
		return
	}
	if position == 0 && name != "self" && name != "home" && name != "workspace" {
		l.refuse(thing, fmt.Sprintf("lets {%s} choose the program", name), "name the program itself", nil)
	}
}

func (l *loader) validateLaneEnv(key string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !envName.MatchString(name) || strings.ContainsRune(env[name], 0) {
			l.refuse(l.place(key+".env")+": "+key+".env", fmt.Sprintf("holds %q, which is not a variable", name), "", nil)
		}
	}
}
