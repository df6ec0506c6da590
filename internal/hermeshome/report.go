package hermeshome

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Outcome is what became of one thing.
type Outcome string

// The outcomes. A refusal is a rule's answer and no failure: doing it again changes nothing.
const (
	Imported Outcome = "imported"
	Present  Outcome = "already_there"
	Skipped  Outcome = "skipped" // has no equal here, or its place is taken
	Refused  Outcome = "refused" // a rule of this home forbids it
	Failed   Outcome = "failed"
)

// Outcomes in the order in which they are told.
var Outcomes = []Outcome{Imported, Present, Skipped, Refused, Failed}

// Item is one thing that was found.
type Item struct {
	Kind    string  `json:"kind"` // board, session, setting, key, profile, file
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	To      string  `json:"to,omitempty"` // where it is now
}

// States of a report. One that says running and whose process is gone is that of an import that was killed.
const (
	Running = "running"
	Done    = "done"   // everything is accounted for, and nothing failed
	Broken  = "failed" // at least one thing failed
)

// Report accounts for everything that was found.
type Report struct {
	Source string          `json:"source"`
	Home   string          `json:"home"`
	DryRun bool            `json:"dry_run,omitempty"`
	State  string          `json:"state"`
	Begun  time.Time       `json:"begun_at"`
	Ended  time.Time       `json:"ended_at,omitzero"`
	Totals map[Outcome]int `json:"totals"`
	Items  []Item          `json:"items"`

	Conversations *sessiondb.Moved `json:"conversations,omitempty"`
	File          string           `json:"file,omitempty"` // where this report was written
}

// find takes a thing into the account; it has no outcome yet.
func (r *Report) find(kind, name string) {
	r.Items = append(r.Items, Item{Kind: kind, Name: name})
}

// settle gives a thing its outcome, once.
func (r *Report) settle(kind, name string, o Outcome, reason, to string) {
	at := slices.IndexFunc(r.Items, func(i Item) bool { return i.Kind == kind && i.Name == name })
	if at < 0 {
		r.Items, at = append(r.Items, Item{Kind: kind, Name: name}), len(r.Items)
	}
	item := &r.Items[at]
	if item.Outcome != "" {
		o, reason = Failed, fmt.Sprintf("was accounted for twice, as %s and as %s: a defect of gatewayd", item.Outcome, o)
	}
	item.Outcome, item.Reason, item.To = o, reason, to
}

// unfold puts what is in a file in the file's place: each part of it is accounted for by itself.
func (r *Report) unfold(kind, name string) {
	r.Items = slices.DeleteFunc(r.Items, func(i Item) bool { return i.Kind == kind && i.Name == name })
}

// finish closes the account: what has no outcome was not reached.
func (r *Report) finish(err error) {
	why := "was not reached"
	if err != nil {
		why += ": " + err.Error()
	}
	r.Totals, r.State, r.Ended = map[Outcome]int{}, Done, time.Now().UTC()
	for i := range r.Items {
		if item := &r.Items[i]; item.Outcome == "" && !mutation.On("what-was-not-reached-is-no-failure") {
			item.Outcome, item.Reason = Failed, why
		}
		r.Totals[r.Items[i].Outcome]++
	}
	if err != nil || r.Totals[Failed] > 0 {
		r.State = Broken
	}
}

// save writes the report under its name, whole or not at all. A dry run writes none.
func (r *Report) save() error {
	if r.DryRun {
		return nil
	}
	dir := filepath.Join(r.Home, "imports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if r.File == "" {
		r.File = filepath.Join(dir, r.Begun.Format("20060102-150405.000")+".json")
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = config.WriteWhole(r.File, string(text)+"\n")
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
