package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Installed is a unit as it lies on disk, with the drop-ins that a person added.
type Installed struct {
	Path    string
	Text    string
	DropIns []string // paths, in the order in which systemd reads them
	added   []string // their texts
}

// ReadInstalled reads a unit. One that is not there gives an error for which errors.Is says fs.ErrNotExist.
func ReadInstalled(path string) (Installed, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Installed{}, err
	}
	u := Installed{Path: path, Text: string(text)}
	u.DropIns, _ = filepath.Glob(filepath.Join(path+".d", "*.conf")) // the only error is of the pattern
	slices.Sort(u.DropIns)
	for _, name := range u.DropIns {
		added, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
		u.added = append(u.added, string(added))
	}
	return u, nil
}

// Ours reports a unit that `gatewayd install` wrote.
func (u Installed) Ours() bool { return strings.HasPrefix(u.Text, Mark) }

// Setting gives the last value of a key, with the drop-ins, as systemd takes it.
func (u Installed) Setting(key string) (value string, found bool) {
	for _, text := range append([]string{u.Text}, u.added...) {
		for line := range strings.Lines(text) {
			name, v, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && strings.TrimSpace(name) == key {
				value, found = strings.TrimSpace(v), true
			}
		}
	}
	return value, found
}

// defaultStop is systemd's own TimeoutStopSec.
const defaultStop = 90 * time.Second

// StopTimeout is how long systemd waits for the daemon's end before it kills; 0 is for ever.
func (u Installed) StopTimeout() (time.Duration, error) {
	text, found := u.Setting("TimeoutStopSec")
	if both, set := u.Setting("TimeoutSec"); !found && set {
		text, found = both, true
	}
	if !found || text == "" {
		return defaultStop, nil
	}
	return parseSpan(text)
}

// spans are systemd's units of time, as far as anybody writes them here.
var spans = map[string]time.Duration{
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second, "ms": time.Millisecond, "msec": time.Millisecond,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// parseSpan reads "130", "2min 10s" and "infinity", which is 0.
func parseSpan(text string) (sum time.Duration, err error) {
	if text == "infinity" {
		return 0, nil
	}
	rest := strings.ReplaceAll(text, " ", "")
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		n, bad := strconv.ParseFloat(rest[:digits], 64)
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit, known := spans[rest[:letters]]
		if bad != nil || !known {
			return 0, errors.New("no span of time: " + strconv.Quote(text))
		}
		sum += time.Duration(n * float64(unit))
		rest = rest[letters:]
	}
	return sum, nil
}
