package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// laneName is the rule of the original for the names of profiles, which lanes stand for.
var laneName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// validateLane checks what a lane says as a whole. What its argv may name is the business of those who fill it
// in, and is asked through Request.CheckLane.
func (l *loader) validateLane(name string, lane Lane) {
	key := "kanban.lanes." + name
	at := l.place(key + ".preset")
	inArgv := l.place(key+".argv") + ": " + key + ".argv"
	before := len(l.problems)
	switch {
	case !laneName.MatchString(name):
		l.refuse(fmt.Sprintf("%s: kanban.lanes.%q", at, name), nameRule, "", nil)
	case lane.Preset == "" && len(lane.Argv) == 0:
		l.refuse(at+": "+key, "says neither preset nor argv", "give one of the two", nil)
	case lane.Preset == "command" && len(lane.Argv) == 0:
		l.refuse(at+": "+key, "needs an argv: a command lane runs what you name", "add `argv: [program, word, …]`", nil)
	case lane.Preset == "agent" && len(lane.Argv) > 0:
		l.refuse(inArgv, "has no meaning for preset agent, which runs gatewayd itself", "remove it or choose preset command", nil)
	case lane.Pool != "" && l.Kanban.Pools[lane.Pool] < 1:
		l.refuse(l.place(key+".pool")+": "+key+".pool", "names a pool that kanban.pools does not have", "add it there, as `pools: {"+lane.Pool+": 1}`", nil)
	case len(lane.Argv) == 1 && strings.ContainsRune(lane.Argv[0], ' '):
		l.refuse(inArgv, "is one word with spaces: it is never split", "write each word on its own, [program, word, …]", nil)
	}
	if lane.Preset == "" {
		lane.Preset = "command"
		l.Kanban.Lanes[name] = lane
	}
	if l.checkLane == nil || len(l.problems) > before {
		return
	}
	if err := l.checkLane(name, lane); err != nil {
		l.refuse(inArgv, "is refused: "+err.Error(), "", nil)
	}
}

// validatePools: a pool of no places would hold its lanes for ever, and 0 means no limit everywhere else.
func (l *loader) validatePools() {
	const key = "kanban.pools"
	for _, name := range sortedKeys(reflect.ValueOf(l.Kanban.Pools)) {
		switch {
		case !laneName.MatchString(name):
			l.refuse(fmt.Sprintf("%s: %s.%q", l.place(key), key, name), "must be named with a-z, 0-9, - and _, at most 64 of them", "", nil)
		case l.Kanban.Pools[name] < 1:
			l.refuse(l.place(key)+": "+key+"."+name, "must be at least 1", "leave the pool out, and `pool` in its lanes, for no limit", nil)
		}
	}
}
