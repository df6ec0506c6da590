package e2e

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// cell is one way in which a conversation grows or shrinks. Afterwards its books are balanced: what was said, what was shown,
// what is stored, what a fresh process reads and what the model is sent next are the same.
type cell struct {
	name    string
	knobs   func(*knobs)
	model   func(fakellm.Request) fakellm.Response // nil: withTool
	steps   func(*ledger)
	folded  bool // rows were put away
	absorbs bool // what people said may be among them
}

// ledger is a cell under way, and what it knows by itself of what was said and shown.
type ledger struct {
	*scene
	said  []string          // what people said, in order
	shown map[string]string // the words of each answer, by what was said
}

const booked = "booked"

// The nine ways. What follows from each is the same.
func TestTheBooksOfAConversationBalance(t *testing.T) {
	t.Parallel()
	together(t, ledgerCells(), func(c cell) string { return c.name }, func(t *testing.T, c cell) {
		k := hasty()
		if c.knobs != nil {
			c.knobs(&k)
		}
		if c.model == nil {
			c.model = withTool
		}
		l := &ledger{shown: map[string]string{}}
		l.scene = newSceneWith(t, k, fakellm.Options{Each: c.model, Aux: fakellm.Text{Text: summaryText}})
		c.steps(l)
		l.stop()
		l.balance(c)
	})
}

const summaryText = "Summary of what was said before: the person asked to look, and it was looked."

// ask says something and notes what was shown.
func (l *ledger) ask(text string) heard {
	l.t.Helper()
	l.said = append(l.said, text)
	h := l.hear(l.t.Context(), booked, text)
	l.shown[text] = h.text
	if h.err != nil || h.words() == "" {
		l.t.Errorf("%q was answered with %q, %q, %v", text, h.text, h.why, h.err)
	}
	return h
}

func (l *ledger) asks(n int) {
	for range n {
		l.ask(fmt.Sprintf("question%d of the ledger", len(l.said)))
	}
}

// balance checks the books: a..f are the promises, as they are named in each failure.
func (l *ledger) balance(c cell) {
	l.t.Helper()
	store := openLeft(l.t, l.home)
	live, all := l.read(store)
	l.saidOnce(live, all, c.absorbs)
	for _, what := range alternate(live) {
		l.t.Errorf("(b) %s", what)
	}
	l.shownAsStored(all)
	l.noScaffolding(live)
	session, err := store.Session(l.t.Context(), booked)
	if err != nil || session.MessageCount != int64(len(live)) {
		l.t.Errorf("(f) %d rows are counted as %d: %v", len(live), session.MessageCount, err)
	}
	if audit, err := sessiondb.Verify(l.t.Context(), store, sessiondb.VerifyOptions{}); err != nil || !audit.OK() {
		l.t.Errorf("(f) %v, %v", audit.Findings, err)
	}
	if folded := slices.ContainsFunc(all, func(m sessiondb.Message) bool { return m.Compacted }); folded != c.folded {
		l.t.Errorf("rows were put away: %v, want %v", folded, c.folded)
	}
	if err := store.Close(); err != nil {
		l.t.Error(err)
	}
	l.resumed(live)
}

func (l *ledger) read(store *sessiondb.Store) (live, all []sessiondb.Message) {
	l.t.Helper()
	live, err := store.Transcript(l.t.Context(), booked)
	if err != nil {
		l.t.Fatal(err)
	}
	all, err = store.Messages(l.t.Context(), booked, sessiondb.MessageFilter{IncludeInactive: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return live, all
}

// saidOnce is (a): what a person said is a turn of its own, live or archived, once, and it is live, unless a summary took it in.
func (l *ledger) saidOnce(live, all []sessiondb.Message, absorbed bool) {
	l.t.Helper()
	for _, text := range l.said {
		alone := map[int64]bool{}
		for _, m := range all {
			if m.Role == "user" && m.Content == text && (m.Active || m.Compacted) {
				alone[m.OriginID] = true
			}
		}
		if n := countRows(live, "user", text); n > 1 || n == 0 && !absorbed || len(alone) != 1 {
			l.t.Errorf("(a) %q is live %d times, and %d times a turn of its own", text, n, len(alone))
		}
	}
}

// shownAsStored is (c): the words of each answer are those of its rows.
func (l *ledger) shownAsStored(all []sessiondb.Message) {
	l.t.Helper()
	for text, shown := range l.shown {
		var turn string
		var words []string
		seen := map[int64]bool{}
		for _, m := range all {
			if m.Role == "user" && m.Content == text {
				turn = m.TurnID
			}
		}
		for _, m := range all {
			if m.TurnID == turn && m.Role == "assistant" && m.Content != "" && m.Kind != sessiondb.KindSummary && !seen[m.OriginID] {
				seen[m.OriginID] = true
				words = append(words, m.Content)
			}
		}
		if plain(shown) != plain(strings.Join(words, " ")) {
			l.t.Errorf("(c) the answer to %q was shown as %q and is stored as %q", text, shown, words)
		}
	}
}

// plain is a text with its words one space apart: paragraphs come between the rows of an answer.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

// noScaffolding is (f): nothing that was only said to the model is a row.
func (l *ledger) noScaffolding(live []sessiondb.Message) {
	l.t.Helper()
	for _, m := range live {
		if m.Role == "user" && m.Kind == "" && !slices.Contains(l.said, m.Content) {
			l.t.Errorf("(f) nobody said %q", m.Content)
		}
		for _, word := range []string{"Continue your answer exactly", "[no answer was recorded]", "[no result was recorded"} {
			if strings.Contains(m.Content, word) {
				l.t.Errorf("(f) a row holds %q", m.Content)
			}
		}
	}
}

// resumed is (d) and (e): a fresh process reads the same list and sends it with the next message at its end.
func (l *ledger) resumed(live []sessiondb.Message) {
	l.t.Helper()
	l.again(l.home)
	for i, r := range l.rows(booked) {
		if i >= len(live) || r.UID != live[i].UID || r.Content != live[i].Content {
			l.t.Errorf("(d) a fresh process reads other rows from %d on: %+v", i, r)
			break
		}
	}
	before := len(l.model.Main())
	l.ask("and now?")
	requests := l.model.Main()
	if len(requests) <= before {
		l.t.Fatal("(e) the model was not asked")
	}
	next := sessiondb.Message{Role: "user", Content: "and now?"}
	if want, got := sentBy(append(slices.Clone(live), next)), withoutSystem(messagesOf(requests[before])); !reflect.DeepEqual(got, want) {
		l.t.Errorf("(e) a fresh process sends other things than are stored:\n%+v\n%+v", got, want)
	}
	l.stop()
}
