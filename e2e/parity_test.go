package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// names are what a row calls things, such as {card}, by what they are called on a board.
type names map[string]string

func (n names) in(s string) string {
	for name, value := range n {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s
}

// parity is one verb of a board through both doors.
type parity struct {
	verb   string                                // of kanban.Board
	given  func(*testing.T, *kanban.Board) names // makes the state in which it is asked for
	cli    []string                              // after `gatewayd kanban --board BOARD`
	method string                                // with the path below /api/boards/BOARD and the body
	path   string
	body   string
	events []string // that it must leave, the newest last
}

// notVerbs are methods of kanban.Board that no person and no worker asks for by these doors, with the reason.
var notVerbs = map[string]string{
	"RunsSince": "is the page's timeline", "Slug": "is the file's", "Path": "is the file's", "File": "is the file's", "Close": "is the registry's", "Replaced": "is the registry's",
	"Lost": "is the registry's", "DropIdle": "is the registry's", "As": "makes a fence", "CurrentRun": "asks a fence", "Backup": "is maintenance",
	"Survey": "is the dispatcher's", "Running": "is the dispatcher's", "Ready": "is the dispatcher's", "Due": "is the dispatcher's",
	"Promote": "is the dispatcher's", "EndRun": "is the dispatcher's", "Reconcile": "is the dispatcher's", "Guarded": "is the dispatcher's",
	"SetWorkspace": "is the dispatcher's", "Spawned": "is the dispatcher's", "Extend": "is the dispatcher's", "Defer": "is the dispatcher's",
	"Keepers": "is the dispatcher's", "Settle": "is the dispatcher's", "WakeDue": "is the dispatcher's", "AssignFrom": "is the dispatcher's Assign",
	"Stops": "is the dispatcher's", "Spare": "is the dispatcher's", "RecentEnds": "is the dispatcher's", "Stopped": "is the dispatcher's",
	"EventsOf": "reads", "InspectRun": "reads", "Task": "reads", "List": "reads", "Show": "reads", "Runs": "reads", "Run": "reads", "TaskEvents": "reads", "Events": "reads",
	"LatestEvent": "reads", "Stats": "reads", "Insights": "reads", "Context": "reads", "Columns": "reads", "Timers": "reads", "Diagnose": "reads",
	"Attachments": "reads", "OpenAttachment": "reads", "Subscription": "reads", "Subscriptions": "reads", "Outbox": "reads", "OutboxCounts": "reads",
	"Errands": "is the notifier's", "Take": "is the notifier's", "Paused": "reads", "ActivePR": "is the dispatcher's", "PRAuthorizationUsed": "is the dispatcher's",
	"WorkerReaped": "is the dispatcher's", "ClosedWorkers": "is the dispatcher's", "Register": "is the worker's launcher's", "Record": "is the notifier's", "Sweep": "is the notifier's", "PruneOutbox": "is the notifier's",
	"Declared": "is the dispatcher's", "GC": "is maintenance", "LeavingScratch": "is the dispatcher's", "LeavingWorktrees": "is the dispatcher's", "WorktreeLeft": "is the dispatcher's", "NoteDiscarded": "is the dispatcher's", "NoteTip": "is the dispatcher's",
	"Retry":        "changes no card",
	"WouldPromote": "changes nothing",
	"Active":       "reads",
	"Redacting":    "makes a door that redacts",
	"Patch":        "is the verbs of one form: Edit, SetModel, Assign and Move have their rows",
}

// Whoever adds a verb to a board says how it is asked for by both doors.
func TestEveryVerbOfABoardHasTwoDoors(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	for _, p := range parities() {
		have[p.verb] = true
	}
	board := reflect.TypeFor[*kanban.Board]()
	for i := range board.NumMethod() {
		name := board.Method(i).Name
		if !have[name] && notVerbs[name] == "" {
			t.Errorf("kanban.Board.%s has no row in the table of both doors", name)
		}
		if have[name] && notVerbs[name] != "" {
			t.Errorf("kanban.Board.%s has a row and %s", name, notVerbs[name])
		}
		delete(have, name)
	}
	for name := range have {
		t.Errorf("there is no kanban.Board.%s", name)
	}
}

// What a person does by the command line and by HTTP is one thing: the rows that it leaves are the same.
func TestBothDoorsLeaveTheSameRows(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\nkanban: {dispatch: false, notify: {commands: {bell: {argv: [/bin/true]}}}}\n"))
	for _, slug := range []string{"typed", "posted"} {
		d.call("POST", "/api/boards", map[string]string{"slug": slug}, nil)
	}
	typed, posted := d.board("typed"), d.board("posted")
	for _, p := range parities() {
		t.Run(p.verb+" "+strings.Join(p.cli[:1], ""), func(t *testing.T) {
			before := len(typed.events(t))
			d.type_(t, "typed", p, p.given(t, typed.Board))
			d.post(t, "posted", p, p.given(t, posted.Board))
			left := typed.events(t)[before:]
			if n := len(left) - len(p.events); n < 0 || !slices.Equal(left[n:], p.events) {
				t.Errorf("events %v do not end in %v", left, p.events)
			}
			if a, b := typed.rows(t), posted.rows(t); a != b {
				t.Errorf("the doors differ:\n%s", firstDifference(a, b))
			}
		})
	}
	d.stop()
}

// speaker is what both doors are told to call the one who speaks.
const speaker = "api"

func (d *daemon) type_(t *testing.T, board string, p parity, n names) {
	t.Helper()
	args := []string{"--home", d.home, "kanban", "--board", board}
	for _, arg := range p.cli {
		args = append(args, n.in(arg))
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "USER=" + speaker}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gatewayd %q: %v\n%s", args[2:], err, out)
	}
}

func (d *daemon) post(t *testing.T, board string, p parity, n names) {
	t.Helper()
	var body any
	if p.body != "" {
		if err := json.Unmarshal([]byte(n.in(p.body)), &body); err != nil {
			t.Fatalf("%s: %v", n.in(p.body), err)
		}
	} else if p.method == http.MethodPost {
		body = map[string]any{}
	}
	if err := d.try(p.method, "/api/boards/"+board+n.in(p.path), body, nil); err != nil {
		t.Fatalf("%s %s %s: %v", p.method, n.in(p.path), n.in(p.body), err)
	}
}

// opened is a board beside the daemon.
type opened struct{ *kanban.Board }

func (d *daemon) board(slug kanban.Slug) opened {
	d.t.Helper()
	path := filepath.Join(d.home, "kanban", "boards", string(slug), "kanban.db")
	b, err := kanban.Open(d.t.Context(), kanban.Options{Path: path, Slug: slug})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = b.Close() })
	return opened{b}
}

func (o opened) events(t *testing.T) []string {
	t.Helper()
	list, err := o.Events(t.Context(), 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]string, len(list))
	for i, e := range list {
		kinds[i] = e.Kind
	}
	return kinds
}

var (
	cardID = regexp.MustCompile(`\bt_[0-9a-f]{8}\b`)
	moment = regexp.MustCompile(`\b1[0-9]{9}\b`)
	asked  = regexp.MustCompile(`"request": "[0-9a-f]{16}"`)
)

// rows are all rows of a file as text. Names that chance gave are numbered in the order in which they appear, and moments of
// this test are one moment.
func (o opened) rows(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := o.File().Read(t.Context(), func(c *sqlite.Conn) error {
		out.Reset()
		var tables []string
		for row, err := range c.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name = 'tasks' DESC, name`) {
			if err != nil {
				return err
			}
			tables = append(tables, row.Text(0))
		}
		for _, table := range tables {
			for row, err := range c.Query(`SELECT * FROM "` + table + `" ORDER BY rowid`) {
				if err != nil {
					return err
				}
				fmt.Fprint(&out, table)
				for i, column := range row.Columns() {
					fmt.Fprintf(&out, " %s=%v", column, row.Any(i))
				}
				fmt.Fprintln(&out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	own := strings.ReplaceAll(out.String(), filepath.Dir(o.Path()), "the board") // where its files lie
	own = asked.ReplaceAllString(own, `"request": "of named cards"`)
	text := cardID.ReplaceAllStringFunc(own, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("card%d", len(seen)+1)
		}
		return seen[id]
	})
	text = moment.ReplaceAllStringFunc(text, func(n string) string {
		if at, _ := time.ParseDuration(n + "s"); time.Since(time.Unix(0, 0).Add(at)).Abs() < time.Hour {
			return "now"
		}
		return n
	})
	host, _ := os.Hostname()
	return regexp.MustCompile(regexp.QuoteMeta(host)+`:[0-9]+`).ReplaceAllString(text, "claimer")
}

func firstDifference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return "typed:  " + left[i] + "\nposted: " + right[i]
		}
	}
	return fmt.Sprintf("%d and %d rows", len(left), len(right))
}
