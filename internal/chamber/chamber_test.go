package chamber

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// ended is a process that is over.
type ended struct{ code, signal int }

func (e ended) PID() int                    { return 1 }
func (e ended) Signal(syscall.Signal) error { return os.ErrProcessDone }
func (e ended) Wait() (int, int, error)     { return e.code, e.signal, nil }
func (e ended) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func TestALedgerAndTheRowsAreCompared(t *testing.T) {
	dir := t.TempDir()
	l, err := newLedger(dir, OnStore, "w")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := l.Intend("s", 5)
	if err != nil || l.Ack(tokens[:3]) != nil {
		t.Fatal(err)
	}
	if _, err := l.file.WriteString("A " + tokens[4]); err != nil { // killed in the middle of the line
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	known, err := readLedgers(dir, OnStore)
	if err != nil || len(known) != 5 || known[tokens[4]].acked || !known[tokens[2]].acked {
		t.Fatalf("%+v, %v", known, err)
	}
	once := place{"s", 1}
	for name, c := range map[string]struct {
		rows map[string]place
		want string
	}{
		"sound":          {map[string]place{tokens[0]: once, tokens[1]: once, tokens[2]: once, tokens[3]: once}, ""},
		"lost":           {map[string]place{tokens[0]: once, tokens[1]: once}, "stored 0x"},
		"twice":          {map[string]place{tokens[0]: once, tokens[1]: {"s", 2}, tokens[2]: once}, "stored 2x"},
		"flight twice":   {map[string]place{tokens[0]: once, tokens[1]: once, tokens[2]: once, tokens[3]: {"s", 2}}, "never acknowledged, is stored 2x"},
		"never intended": {map[string]place{tokens[0]: once, tokens[1]: once, tokens[2]: once, "TKx": once}, "never intended"},
		"elsewhere":      {map[string]place{tokens[0]: once, tokens[1]: once, tokens[2]: {"other", 1}}, "stands in other"},
	} {
		r := Audit{}
		acked, flight := compare(&r, known, c.rows)
		if got := strings.Join(r.Findings, "; "); acked != 3 || flight != 2 || (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d acknowledged, %d in flight, %q", name, acked, flight, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "store-x-1.ledger"), []byte("what is this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLedgers(dir, OnStore); err == nil {
		t.Error("a broken ledger was read")
	}
}

func TestAProcessIsJudgedByWhatItSaidAndHowItEnded(t *testing.T) {
	busy := Event{Event: "error", Class: "busy", Text: "locked"}
	for name, c := range map[string]struct {
		part   Part
		end    ended
		events []Event
		killed bool
		wrong  int
	}{
		"well":                     {end: ended{}, events: []Event{{Event: "ready"}}},
		"killed by us":             {end: ended{-1, 9}, killed: true},
		"killed by another":        {end: ended{-1, 9}, wrong: 1},
		"code without a word":      {end: ended{code: 2}, wrong: 1},
		"an error":                 {end: ended{code: 1}, events: []Event{busy}, wrong: 1},
		"the expected one":         {part: Part{Error: "busy"}, end: ended{code: 1}, events: []Event{busy}},
		"the expected one twice":   {part: Part{Error: "busy"}, end: ended{code: 1}, events: []Event{busy, busy}, wrong: 1},
		"the expected and another": {part: Part{Error: "busy"}, end: ended{code: 1}, events: []Event{busy, {Event: "error", Class: "io"}}, wrong: 1},
		"the expected one missing": {part: Part{Error: "busy"}, end: ended{}, wrong: 2},
	} {
		p := newActorProcess(c.part)
		p.proc, p.killed = c.end, c.killed
		for _, e := range c.events {
			line, _ := json.Marshal(e)
			for _, piece := range [][]byte{line[:3], line[3:], []byte("\n")} { // as a pipe may cut it
				if _, err := p.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
		}
		if wrong := p.verdict(); len(wrong) != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
	p := newActorProcess(Part{Role: "r"})
	p.proc = ended{}
	if err := p.await(t.Context(), "acked", 1); err == nil {
		t.Error("an event of a process that has ended was awaited")
	}
	if _, err := p.Write([]byte("no json\n")); err != nil || len(p.errors) != 1 {
		t.Errorf("a garbled line is no error: %v", err)
	}
}

func TestTheMonitorSeesWhoHoldsADeletedFileSinceTheEpisodeBegan(t *testing.T) {
	store := filepath.Join(t.TempDir(), "state.db")
	file, err := os.Create(store)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := newMonitor(store)
	if err != nil {
		t.Fatal(err)
	}
	m.scan()
	if found, scans := m.report(); len(found) != 0 || scans != 1 {
		t.Errorf("%q after %d scans", found, scans)
	}
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	m.begin(true)
	m.scan()
	if found, _ := m.report(); len(found) != 0 {
		t.Errorf("found in an episode that deletes: %q", found)
	}
	m.begin(false)
	m.scan()
	if found, _ := m.report(); len(found) != 1 || !strings.Contains(found[0], "deleted") {
		t.Errorf("found %q", found)
	}
	if held, err := m.heldNow(); err != nil || len(held) != 1 {
		t.Errorf("held %v, %v", held, err)
	}
}

// Each episode of a table has a name of its own, roles that exist, and something that happens.
func TestTheEpisodesArePlayable(t *testing.T) {
	var names []string
	for _, e := range slices.Concat(Shared(), Losses(), Copies(), Repairs(), []Episode{Full()}) {
		if slices.Contains(names, e.Name) {
			t.Errorf("two episodes are called %s", e.Name)
		}
		names = append(names, e.Name)
		parts := map[string]bool{}
		for _, p := range e.Cast {
			if roles()[p.Role] == nil && foreigners[p.Role] == nil {
				t.Errorf("%s: there is no role %s", e.Name, p.Role)
			}
			if parts[p.name()] {
				t.Errorf("%s: two parts are called %s", e.Name, p.name())
			}
			parts[p.name()] = true
		}
		if len(e.Faults) == 0 && e.Name != "baseline" {
			t.Errorf("%s: nothing happens", e.Name)
		}
	}
}

// A conversation that lost rows ends the one who counts them, with a word for the harness and a cause for people.
func TestLostRowsAreToldWithTheirState(t *testing.T) {
	was := map[string]Sample{"gw": {All: 12, Live: 6, History: 4, Last: 31}, "term": {All: 2}}
	if err := shrunk(was, map[string]Sample{"gw": {All: 13, Live: 2, History: 10, Last: 33}, "term": {All: 2}}); err != nil {
		t.Errorf("rows that were folded are not lost: %v", err)
	}
	err := shrunk(was, map[string]Sample{"gw": {All: 10, Live: 6, History: 2, Last: 31}, "term": {All: 2}})
	if want := "gw had 12 rows (6 live, 4 history, the last is 31), has 10 rows (6 live, 2 history, the last is 31)"; err == nil || !strings.Contains(err.Error(), want) || classOf(err) != "rows_lost" {
		t.Errorf("%v", err)
	}
}
