package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatewayd/config"
)

// Lane is one kind of worker, checked and ready to be filled in.
type Lane struct {
	Name          string
	Preset        string
	Template      Template
	Ending        Ending
	NeedsModel    bool
	OwnArgv       bool     // the lane's argv and not the preset's
	Env           []string // KEY=VALUE, literal
	Pass          []string // names of the daemon's variables the worker may see
	Workdir       string   // "" = the card's workspace
	MaxRuntime    time.Duration
	MaxInProgress int // 0 = no limit
	KillGrace     time.Duration
	Pool          string // of kanban.pools; "" = none
}

// Lanes are the configured lanes. A card's assignee names its lane.
type Lanes struct{ byName map[string]Lane }

// DefaultLane is there even when no lane is configured, so that a first card can be done.
const DefaultLane = "agent"

// NewLanes checks every lane. modelKeys are the variables in which the models' keys live, which only our own
// worker may see.
func NewLanes(c config.Kanban, modelKeys ...string) (*Lanes, error) {
	lanes := &Lanes{byName: map[string]Lane{}}
	defined := maps.Clone(c.Lanes)
	if defined == nil {
		defined = map[string]config.Lane{}
	}
	if _, ok := defined[DefaultLane]; !ok {
		defined[DefaultLane] = config.Lane{Preset: "agent"}
	}
	var problems []error
	for name, d := range defined {
		lane, err := newLane(name, d, c.MaxInProgressPerLane)
		if err != nil {
			problems = append(problems, fmt.Errorf("lane %s: %w", name, err))
			continue
		}
		if lane.NeedsModel {
			lane.Pass = append(lane.Pass, slices.DeleteFunc(slices.Clone(modelKeys), func(name string) bool { return name == "" })...)
		}
		lanes.byName[canonical(name)] = lane
	}
	return lanes, errors.Join(problems...)
}

func newLane(name string, d config.Lane, perLane int) (Lane, error) {
	kind := d.Preset
	if kind == "" && len(d.Argv) > 0 {
		kind = "command"
	}
	known, ok := presets()[kind]
	if !ok {
		return Lane{}, fmt.Errorf("preset %q is none of %s", d.Preset, strings.Join(PresetNames(), ", "))
	}
	argv := known.argv
	if len(d.Argv) > 0 && kind != "agent" {
		argv = d.Argv
	}
	template, err := ParseTemplate(argv)
	if err != nil {
		return Lane{}, err
	}
	env, err := literalEnv(d.Env)
	if err != nil {
		return Lane{}, err
	}
	lane := Lane{
		Name: canonical(name), Preset: kind, Template: template, Ending: known.ending, NeedsModel: known.model, OwnArgv: len(d.Argv) > 0,
		Env: env, Pass: slices.Concat(known.pass, d.EnvPass), Workdir: d.Workdir,
		MaxRuntime: d.MaxRuntime, MaxInProgress: d.MaxInProgress, KillGrace: d.KillGrace, Pool: d.Pool,
	}
	if lane.MaxInProgress == 0 {
		lane.MaxInProgress = perLane
	}
	if lane.KillGrace == 0 {
		lane.KillGrace = 5 * time.Second
	}
	return lane, nil
}

// canonical is how assignees are stored on a board: lower case.
func canonical(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Lookup gives the lane that an assignee names.
func (l *Lanes) Lookup(assignee string) (Lane, bool) {
	lane, ok := l.byName[canonical(assignee)]
	return lane, ok
}

// Names are the lanes' names, sorted.
func (l *Lanes) Names() []string { return slices.Sorted(maps.Keys(l.byName)) }

// Nearest suggests the lane that was probably meant, or "".
func (l *Lanes) Nearest(assignee string) string {
	return config.Nearest(canonical(assignee), l.Names())
}

// PresetNames are all presets, sorted.
func PresetNames() []string { return slices.Sorted(maps.Keys(presets())) }
