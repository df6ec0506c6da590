package config

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Request is what the caller brings: the flags that were really given, by name ("home", "addr", "log-level",
// or any key in full, as "kanban.interval"), and the environment.
type Request struct {
	Flags   map[string]string
	Environ []string
	// CheckLane is asked about each lane that is well-formed; its error is given the lane's place. It belongs to
	// the package that starts workers, which knows what an argv may name.
	CheckLane func(name string, lane Lane) error
}

// Source says where a value came from.
type Source string

// The sources, weakest first.
const (
	FromDefault    Source = "default"
	FromDotenv     Source = ".env"
	FromFile       Source = "file" // the configuration, or the file of a secret
	FromCredential Source = "credential"
	FromEnv        Source = "env"
	FromFlag       Source = "flag"
)

// Origin is a value as it would be written, and where it came from. Place is "/home/a/.gatewayd/config.yaml:12",
// a variable's name, a flag or the name of a credential; it is empty for a default. Over are the places whose values it overrules,
// the strongest first.
type Origin struct {
	Value  string `json:"value"`
	Source Source `json:"source"`
	Place  string `json:"place,omitempty"`
	Over   string `json:"over,omitempty"`
}

// set notes where the value of a key came from, and what it overrules.
func (l *loader) set(key string, from Origin) {
	if before := l.Origins[key]; before.Source != FromDefault && before.Place != "" {
		from.Over = before.Place
		if before.Over != "" {
			from.Over += ", " + before.Over
		}
	}
	l.Origins[key] = from
}

// Loaded is the settings in force with their history. It is read-only once Load returned.
type Loaded struct {
	Config
	// Path is the configuration file, which need not exist.
	Path string
	// Empty says that the file is there and holds nothing at all, as one does that is being written.
	Empty bool
	// Origins by key in full, "api.addr"; lanes as "kanban.lanes.NAME.argv".
	Origins map[string]Origin
	// Warnings are whole sentences for a person; nothing was refused because of them.
	Warnings []string
	// Environ is the environment that the settings were read from. What the home's .env adds that is no setting stands first in it,
	// where it is the weakest.
	Environ Environ
	// Worker is set inside a worker that a dispatcher started.
	Worker *Worker
	// Session is the conversation whose terminal this process runs in; empty outside of one, and inside a worker.
	Session string
}

// Load reads the settings, a flag before a variable before config.yaml before .env, and refuses what is wrong. The error holds every *problem.Error found, each of kind
// Config and each naming its place; nothing is created or changed on disk.
func Load(req Request) (Loaded, error) {
	l := &loader{Loaded: Loaded{Environ: req.Environ, Origins: map[string]Origin{}}, checkLane: req.CheckLane}
	if err := l.resolveHome(req.Flags); err != nil {
		return Loaded{}, err
	}
	l.defaults()
	l.dotenv()
	l.file()
	l.environment()
	l.worker()
	if !l.insideWorker() {
		l.Session = l.Environ.Get(sessionEnv)
	}
	l.flags(req.Flags)
	l.settle()
	l.validate()
	if len(l.problems) > 0 {
		return Loaded{}, errors.Join(l.problems...)
	}
	return l.Loaded, nil
}

// HomeOf finds the home and nothing else: it reads no file, so that a configuration that is wrong hides neither the home nor
// the daemon that lives there.
func HomeOf(req Request) (string, error) {
	l := &loader{Loaded: Loaded{Environ: req.Environ, Origins: map[string]Origin{}}}
	err := l.resolveHome(req.Flags)
	return l.Home, err
}

// loader gathers problems instead of stopping at the first: a person who mends a file wants to see all of them.
type loader struct {
	Loaded
	problems  []error
	env       dotenvFile
	checkLane func(name string, lane Lane) error
}

func (l *loader) defaults() {
	applyDefaults(&l.Config)
	for s := range settings(&l.Config) {
		l.Origins[s.key] = Origin{Value: render(s.value), Source: FromDefault}
	}
}

func (l *loader) file() {
	l.Path = filepath.Join(l.Home, "config.yaml")
	text, err := readSmall(l.Path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return // a home that is no directory is refused by whoever wants to live there
	}
	if at, ok := errors.AsType[*os.PathError](err); ok && at.Op == "stat" && errors.Is(err, os.ErrPermission) {
		l.problems = append(l.problems, noAccess(l.Home, err)) // a stat needs no right to the file, only to its directory
		return
	}
	if err != nil {
		l.refuse(l.Path, "cannot be read", "make it a readable text file or remove it", err)
		return
	}
	l.Empty = len(bytes.TrimSpace(text)) == 0
	l.decode(text)
}

// flags win over everything else. A name without a dot is one of the short names of the command line.
func (l *loader) flags(given map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key, short := shortFlags[name]
		if !short {
			key = name
		}
		if key == "" {
			continue
		}
		l.assign(key, given[name], Origin{Source: FromFlag, Place: "--" + name}, plainUnit)
	}
}

// shortFlags are the command line's names for keys; home is resolved before all others.
var shortFlags = map[string]string{
	"home": "", "addr": "api.addr", "log-level": "log.level", "log-format": "log.format",
}
