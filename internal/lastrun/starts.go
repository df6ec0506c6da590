package lastrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatewayd/internal/mutation"
)

const (
	startsName = "starts.json"
	startsKept = 64
)

// Storm is when starts come too often: more than Limit, within Window, that each followed a run which had died. The wait begins with
// First and doubles up to Longest. A Limit of 0 never waits.
type Storm struct {
	Limit                  int
	Window, First, Longest time.Duration
}

// Start is one start of a daemon, as starts.json keeps it: before anything else was done in it.
type Start struct {
	Arrived time.Time     `json:"arrived"`
	Wait    time.Duration `json:"wait_ns,omitempty"` // that it was made to wait before it did anything
	// Unclean says that the run before it had died.
	Unclean bool `json:"unclean,omitempty"`
	// Clean says that its own run ended because somebody asked; one that died cannot say so.
	Clean bool `json:"clean,omitempty"`
	// Count is how many of the starts within the window, this one among them, followed a run that had died.
	Count int `json:"count,omitempty"`
}

// Until is when its wait is over.
func (s Start) Until() time.Time { return s.Arrived.Add(s.Wait) }

// Starts is the list of the starts of a home. Whoever writes it holds the home.
type Starts struct {
	path string
	list []Start
}

// Arrive writes down that a start has begun, and gives it with the wait that it owes. It is asked before anything expensive. What
// cannot be read is begun anew; what cannot be written is an error, and then nobody waits.
func Arrive(dir string, now time.Time, storm Storm) (*Starts, Start, error) {
	s := &Starts{path: filepath.Join(dir, startsName)}
	list, err := readStarts(s.path)
	next := storm.next(list, now)
	s.list = append(list[max(0, len(list)-startsKept+1):], next)
	if werr := s.write(); werr != nil {
		return nil, Start{Arrived: now}, errors.Join(err, werr)
	}
	return s, next, err
}

// Clean notes that this run ends because somebody asked.
func (s *Starts) Clean() error {
	if s == nil {
		return nil
	}
	s.list[len(s.list)-1].Clean = true
	return s.write()
}

// LastStart is the newest start of a home, for those who look from outside; false where there is none.
func LastStart(dir string) (Start, bool) {
	list, err := readStarts(filepath.Join(dir, startsName))
	if err != nil || len(list) == 0 {
		return Start{}, false
	}
	return list[len(list)-1], true
}

// next is the rule. A storm that was begun goes on with a longer wait until a run is stopped in order or lasts for the window.
func (w Storm) next(list []Start, now time.Time) Start {
	next := Start{Arrived: now}
	if len(list) == 0 || list[len(list)-1].Clean && !mutation.On("planned-starts-count") {
		return next
	}
	last := list[len(list)-1]
	next.Unclean = true
	next.Count = 1
	for _, s := range list {
		if age := now.Sub(s.Arrived); s.Unclean && age >= 0 && age < w.Window {
			next.Count++
		}
	}
	lived := now.Sub(last.Until())
	switch {
	case w.Limit == 0:
	case last.Wait > 0 && lived >= 0 && lived < w.Window && !mutation.On("storm-begins-anew"):
		next.Wait = min(max(2*last.Wait, w.First), w.Longest)
	case next.Count > w.Limit:
		next.Wait = min(w.First, w.Longest)
	}
	return next
}

func readStarts(path string) ([]Start, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Start
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return list, nil
}

func (s *Starts) write() error {
	text, err := json.Marshal(s.list)
	if err != nil {
		return fmt.Errorf("encode starts: %w", err)
	}
	if err := replace(s.path, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return nil
}
