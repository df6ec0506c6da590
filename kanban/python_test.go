package kanban

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var whole = flag.Bool("all", false, "run beside programs in Python for longer, and migrate each vintage by eight processes (make whole)")

// pythonPeer is a program that uses a board as the original does, statement by statement, with the sqlite3 of Python. Its
// words are the file's documented columns alone.
const pythonPeer = `
import os, random, sqlite3, struct, sys, time
path, what, tag = sys.argv[1:4]
PAGE = 16
def connect():
    db = sqlite3.connect(path, timeout=120, isolation_level=None)
    for pragma in ("busy_timeout=120000", "synchronous=FULL", "wal_autocheckpoint=100", "secure_delete=ON", "cell_size_check=ON"):
        db.execute("PRAGMA " + pragma)
    return db

def torn():
    # Opens and closes the file, which costs this process its locks on it, as each program with this check does.
    with open(path, "rb") as f:
        head = f.read(100)
    size, = struct.unpack(">H", head[16:18])
    pages, = struct.unpack(">I", head[28:32])
    return os.stat(path).st_size // (65536 if size == 1 else size) < pages

def claim(db, card):
    now = int(time.time())
    db.execute("BEGIN IMMEDIATE")
    done = db.execute("""UPDATE tasks SET status = 'running', claim_lock = ?, claim_expires = ?, started_at = COALESCE(started_at, ?)
        WHERE id = ? AND status = 'ready' AND claim_lock IS NULL""", (tag, now + 900, now, card)).rowcount
    if done == 1:
        run = db.execute("""INSERT INTO task_runs (task_id, profile, status, claim_lock, claim_expires, started_at)
            SELECT id, assignee, 'running', ?, ?, ? FROM tasks WHERE id = ?""", (tag, now + 900, now, card)).lastrowid
        db.execute("UPDATE tasks SET current_run_id = ? WHERE id = ?", (run, card))
        db.execute("INSERT INTO task_events (task_id, run_id, kind, payload, created_at) VALUES (?, ?, 'claimed', ?, ?)", (card, run, '{"lock": "%s"}' % tag, now))
    db.execute("COMMIT")
    return done == 1

def complete(db, card):
    now = int(time.time())
    db.execute("BEGIN IMMEDIATE")
    run, = db.execute("SELECT current_run_id FROM tasks WHERE id = ?", (card,)).fetchone()
    db.execute("UPDATE tasks SET status = 'done', completed_at = ?, result = 'by python', claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, current_run_id = NULL WHERE id = ?", (now, card))
    db.execute("UPDATE task_runs SET status = 'done', outcome = 'completed', ended_at = ?, summary = 'by python' WHERE id = ? AND ended_at IS NULL", (now, run))
    db.execute("INSERT INTO task_events (task_id, run_id, kind, payload, created_at) VALUES (?, ?, 'completed', NULL, ?)", (card, run, now))
    db.execute("COMMIT")

def create(db, n):
    now, card = int(time.time()), "t_" + os.urandom(4).hex()
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO tasks (id, title, body, status, priority, created_at, workspace_kind) VALUES (?, ?, ?, 'ready', 0, ?, 'scratch')", (card, "by python", "x" * random.randint(0, 20000), now))
    db.execute("INSERT INTO task_events (task_id, kind, payload, created_at) VALUES (?, 'created', NULL, ?)", (card, now))
    db.execute("COMMIT")
    return card

db = connect()
print("ready", flush=True)
sys.stdin.readline()
if what == "claim":
    cards = [c for c, in db.execute("SELECT id FROM tasks ORDER BY id")]
    print("won", sum(claim(db, c) for c in cards), flush=True)
elif what == "live":
    card, = db.execute("SELECT id FROM tasks WHERE status = 'ready' ORDER BY id LIMIT 1").fetchone()
    ok = claim(db, card)
    complete(db, card)
    made = create(db, 1)
    print("lived", ok, db.execute("SELECT count(*) FROM tasks").fetchone()[0], card, made, flush=True)
else:
    end, commits, alarms = time.time() + float(what), 0, 0
    while time.time() < end:
        card = create(db, 1)
        claim(db, card)
        complete(db, card)
        commits += 3
        alarms += torn()
        if commits % 60 == 0:
            db.close()
            db = connect()
    print("wrote", commits, alarms, flush=True)
db.close()
`

// peer is one such program.
type peer struct {
	cmd  *exec.Cmd
	out  *bufio.Scanner
	errs strings.Builder
	let  func()
}

func startPeer(t *testing.T, path, what, tag string) *peer {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: a board that is shared with a program in Python is NOT tested")
	}
	p := &peer{cmd: exec.Command(python, "-c", pythonPeer, path, what, tag)}
	p.cmd.Stderr = &p.errs
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	p.let = func() { _, _ = in.Write([]byte("go\n")) }
	t.Cleanup(func() { _ = in.Close(); _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	if got := p.line(); got != "ready" {
		t.Fatalf("python: %q %s", got, p.errs.String())
	}
	return p
}

func (p *peer) line() string { p.out.Scan(); return p.out.Text() }

// end gives the words of what it did, and fails the test where it did not do it.
func (p *peer) end(t *testing.T, word string) []string {
	t.Helper()
	words := strings.Fields(p.line())
	if err := p.cmd.Wait(); err != nil || len(words) == 0 || words[0] != word {
		t.Errorf("python: %v %v\n%s", words, err, p.errs.String())
		return make([]string, 8)
	}
	return words
}

// Ours and Python's claim the same cards at once: each card has one winner, one run, one event.
func TestClaimsBesidePythonHaveOneWinnerEach(t *testing.T) {
	cards, sides := 60, 2
	if *whole {
		cards, sides = 2000, 4
	}
	b := newBoard(t)
	var ids []string
	for range cards {
		ids = append(ids, b.make(t, NewTask{Assignee: "dev"}).ID)
	}
	var peers []*peer
	for i := range sides {
		peers = append(peers, startPeer(t, b.Path(), "claim", fmt.Sprint("python:", i)))
	}
	var ours sync.WaitGroup
	won := make([]int, sides)
	for i := range sides {
		mine := openBoard(t, Options{Path: b.Path()})
		ours.Go(func() {
			for _, id := range ids {
				_, err := mine.Claim(t.Context(), id, Claimer{Lock: fmt.Sprint("go:", i)})
				if err == nil {
					won[i]++
				} else if !errors.Is(err, ErrTaken) {
					t.Error(err)
				}
			}
		})
		peers[i].let()
	}
	ours.Wait()
	sum := 0
	for i, p := range peers {
		n, _ := strconv.Atoi(p.end(t, "won")[1])
		sum += n + won[i]
	}
	if sum != cards {
		t.Errorf("%d claims were won, there are %d cards", sum, cards)
	}
	if got := b.scalar(t, `SELECT COUNT(*) || ' ' || COUNT(DISTINCT task_id) || ' ' || (SELECT COUNT(*) FROM task_events WHERE kind = 'claimed') FROM task_runs`); got != fmt.Sprintf("%d %d %d", cards, cards, cards) {
		t.Errorf("runs, cards with a run, claimed events: %s", got)
	}
	b.invariants(t)
	t.Logf("%d of %d went to ours", won, cards)
}

// Programs that open and close the file beside their own connection lose their locks on it, and would checkpoint and delete
// the -wal under each other's feet. A handle of ours that stays open, and never deletes it, protects them. Ours alarms
// nobody about a file that another one is just making longer.
func TestALongLivedHandleProtectsTheBoardAmongProgramsThatLoseTheirLocks(t *testing.T) {
	length := 1.5
	if *whole {
		length = 20
	}
	b := newBoard(t)
	b.make(t, NewTask{})
	var peers []*peer
	for i := range 3 {
		peers = append(peers, startPeer(t, b.Path(), fmt.Sprint(length), fmt.Sprint("python:", i)))
	}
	for _, p := range peers {
		p.let()
	}
	ours, alarms := 0, 0
	tell := func(err error) {
		ours++
		switch {
		case Committed(err):
			alarms++
		case err != nil:
			t.Error(err)
		}
	}
	for end := time.Now().Add(time.Duration(length * float64(time.Second))); time.Now().Before(end); {
		card, err := b.Create(t.Context(), NewTask{Title: "by us", Body: strings.Repeat("y", ours%200*100)})
		tell(err)
		claim, err := b.Claim(t.Context(), card.ID, Claimer{})
		tell(err)
		tell(b.Complete(t.Context(), card.ID, Completion{Run: &claim.Run.ID, Summary: "s"}))
	}
	theirs, false_ := 0, 0
	for _, p := range peers {
		words := p.end(t, "wrote")
		n, _ := strconv.Atoi(words[1])
		f, _ := strconv.Atoi(words[2])
		theirs, false_ = theirs+n, false_+f
	}
	if alarms != 0 {
		t.Errorf("%d false alarms in %d commits", alarms, ours)
	}
	if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	if _, err := os.Stat(b.Path() + "-wal"); err != nil {
		t.Errorf("the -wal was deleted: %v", err)
	}
	if got := b.scalar(t, `SELECT COUNT(*) FROM task_events WHERE kind = 'completed'`); got != fmt.Sprint((ours+theirs)/3) {
		t.Errorf("%s cards are completed, %d were", got, (ours+theirs)/3)
	}
	b.invariants(t)
	t.Logf("%d commits of ours, 0 alarms; %d of Python's, of which %d would have been alarmed", ours, theirs, false_)
}

// What we have migrated is still a board to an older program, which names its own columns only.
func TestAnOlderProgramLivesOnAMigratedFile(t *testing.T) {
	for name, script := range vintages() {
		t.Run(name, func(t *testing.T) { olderProgramLives(t, writeVintage(t, script)) })
	}
	for _, f := range fixtures() {
		t.Run(f.file, func(t *testing.T) { olderProgramLives(t, fixture(t, f.file)) })
	}
}

func olderProgramLives(t *testing.T, path string) {
	t.Helper()
	b := openBoard(t, Options{Path: path})
	before := b.scalar(t, `SELECT COUNT(*) FROM tasks`)
	p := startPeer(t, path, "live", "python:1")
	p.let()
	words := p.end(t, "lived")
	if words[1] != "True" || words[2] == before {
		t.Errorf("python: %v, there were %s cards", words, before)
	}
	if got := b.get(t, words[3]); got.Status != StatusDone || got.Result != "by python" {
		t.Errorf("its card: %+v", got)
	}
	run := b.mustClaim(t, words[4])
	if err := b.Complete(t.Context(), words[4], Completion{Run: &run, Summary: "s"}); err != nil {
		t.Error(err)
	}
}
