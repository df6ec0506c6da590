package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// held answers a request for a summary in pieces; asked tells when the first has gone out, and the rest comes when gate is closed.
func held(asked chan<- struct{}, gate <-chan struct{}) func(fakellm.Request) fakellm.Response {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	both := make(chan struct{})
	go func() {
		both <- <-first
		<-gate
		close(both)
	}()
	return func(fakellm.Request) fakellm.Response {
		return fakellm.Text{Text: aSummary, ChunkChars: 20, Gate: both, Sent: func(n int) {
			if n == 1 {
				asked <- struct{}{}
			}
		}}
	}
}

// A person keeps the last exchanges and folds the rest: what stays is live once and word for word, the reply says what was gained.
func TestCompressHereKeepsTheLastExchanges(t *testing.T) {
	journals(t, func(t *testing.T, mode string) {
		f := newFoldHouseAt(t, 6000, mode, nil)
		for n := 1; n <= 4; n++ {
			f.ask1(n)
		}
		before := f.rows("s1")
		preview, err := f.Compress(soon(t), "s1", Compress{Here: 2, Preview: true})
		if err != nil || preview.Status != CompressPreview || preview.Folded != 4 || preview.Kept != 4 || f.auxes() != 0 {
			t.Fatalf("%+v, %v", preview, err)
		}
		got, err := f.Compress(soon(t), "s1", Compress{Here: 2, Topic: "the numbers"})
		if err != nil || got.Status != CompressDone || got.Folded != 4 || got.Kept != 4 || got.RowsAfter != 6 || got.RowsBefore != 8 || got.TokensAfter >= got.TokensBefore {
			t.Fatalf("%+v, %v", got, err)
		}
		if text := got.String(); !strings.Contains(text, "Folded 4 messages") || !strings.Contains(text, "searchable") {
			t.Error(text)
		}
		f.books(4)
		rows := f.rows("s1")
		if shape(rows) != "user/model_only assistant/summary user assistant user assistant" {
			t.Fatal(shape(rows))
		}
		for i, m := range rows[2:] {
			if m.Content != before[4+i].Content || m.OriginID != before[4+i].OriginID {
				t.Errorf("row %d is not the one that was kept", i)
			}
		}
		again, err := f.Compress(soon(t), "s1", Compress{Here: 2})
		if err != nil || again.Status != CompressNothing || !again.Noop || f.auxes() != 1 {
			t.Errorf("%+v, %v", again, err)
		}
		f.ask1(5)
		f.books(5)
	})
}

func newFoldHouseAt(t *testing.T, window int, mode string, change func(*Options)) *foldHouse {
	t.Helper()
	f := newFoldHouse(t, window, change)
	f.stop()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	f.path = t.TempDir() + "/state.db"
	makeStore(t, f.path, mode)
	f.begin(window, change)
	if got := f.store.File().Journal().Mode; got != mode {
		t.Fatalf("the house works in mode %s", got)
	}
	return f
}

// What cannot be done by hand is said, and nothing is changed.
func TestCompressByHandSaysWhatItCannotDo(t *testing.T) {
	f := newFoldHouse(t, 6000, nil)
	if _, err := f.Compress(soon(t), "nobody", Compress{}); problem.KindOf(err) != problem.NotFound {
		t.Errorf("a missing session: %v", err)
	}
	if _, err := f.Compress(soon(t), "s1", Compress{Here: 101}); problem.KindOf(err) != problem.Invalid {
		t.Errorf("too many: %v", err)
	}
	f.ask1(1)
	got, err := f.Compress(soon(t), "s1", Compress{})
	if err != nil || got.Status != CompressNothing || !strings.Contains(got.String(), "2 messages") {
		t.Errorf("two rows: %+v, %v", got, err)
	}
	f.ask1(2)
	f.ask1(3)
	for name, c := range map[string]struct {
		aux    fakellm.Response
		status CompressStatus
	}{
		"overloaded": {fakellm.Error{Status: 529, Message: "overloaded"}, CompressFailed},
		"a failure":  {fakellm.Error{Status: 400, Message: "no"}, CompressFailed},
	} {
		f.answers("aux", func(fakellm.Request) fakellm.Response { return c.aux })
		before := f.census()
		if got, err = f.Compress(soon(t), "s1", Compress{Here: 1}); err != nil || got.Status != c.status || !strings.HasPrefix(got.String(), "Nothing was changed") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if now := f.census(); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("%s changed rows", name)
		}
	}
	if st := f.state(); st.Failures != 1 {
		t.Errorf("a person's try begins anew, and %d failures are remembered", st.Failures)
	}
	steal(t, f.store, "s1")
	if got, err = f.Compress(soon(t), "s1", Compress{Here: 1}); err != nil || got.Status != CompressLockSkipped {
		t.Errorf("beside another process' turn: %+v, %v", got, err)
	}
}

// Stop and drain end a compaction and leave the conversation as it was. A message, a redirect among them, waits until it is done.
func TestACompactionIsEndedByStopAndDrainAlone(t *testing.T) {
	for name, end := range map[string]func(f *foldHouse){
		"stop":  func(f *foldHouse) { f.Interrupt("s1", Stop) },
		"drain": func(f *foldHouse) { go f.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFoldHouse(t, 6000, nil)
			for n := 1; n <= 3; n++ {
				f.ask1(n)
			}
			asked, gate := make(chan struct{}, 1), make(chan struct{})
			f.answers("aux", held(asked, gate))
			defer close(gate)
			before := f.census()
			done := make(chan Compressed, 1)
			go func() {
				got, _ := f.Compress(context.WithoutCancel(t.Context()), "s1", Compress{Here: 1})
				done <- got
			}()
			<-asked
			end(f)
			if got := <-done; got.Status != CompressFailed || !got.Aborted {
				t.Errorf("%+v", got)
			}
			if now := f.census(); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Error("rows were changed")
			}
			if leases, err := f.store.Leases(t.Context()); err != nil || len(leases) != 0 {
				t.Errorf("leases left: %v, %v", leases, err)
			}
			if st := f.state(); st.Failures != 0 || !st.RetryAt.IsZero() {
				t.Errorf("it is held against the conversation: %+v", st)
			}
		})
	}
}

func TestAMessageWaitsForACompaction(t *testing.T) {
	f := newFoldHouse(t, 6000, nil)
	turns := 0
	asked, gate := make(chan struct{}, 1), make(chan struct{})
	f.answers("aux", held(asked, gate))
	said := make(chan Result, 1)
	go func() {
		for turns < 12 && f.auxes() == 0 {
			turns++
			r, err := f.Say(context.WithoutCancel(t.Context()), Say{Session: "s1", Source: SourceAPI, Text: fmt.Sprintf("TA%dQ please", turns)}, nil)
			if err != nil {
				t.Error(err)
			}
			if f.auxes() > 0 {
				said <- r
			}
		}
	}()
	<-asked
	second := make(chan Result, 1)
	go func() {
		r, err := f.Say(context.WithoutCancel(t.Context()), Say{Session: "s1", Source: SourceAPI, Text: "TA99Q urgent", Mode: ModeRedirect}, nil)
		if err != nil {
			t.Error(err)
		}
		second <- r
	}()
	for queued := 0; queued == 0; queued = f.Status().Queued {
		select {
		case <-soon(t).Done():
			t.Fatal("it is not queued")
		default:
		}
	}
	close(gate)
	if r := <-said; !r.Completed {
		t.Errorf("the turn that was folding: %+v", r)
	}
	if r := <-second; !r.Completed {
		t.Errorf("the message that waited: %+v", r)
	}
	if !strings.Contains(shape(f.rows("s1")), "summary") {
		t.Error("nothing was folded")
	}
	f.books(turns)
}

// Rows that come while the summary is written go on behind it, whoever wrote them, in both journal modes.
func TestRowsThatComeMeanwhileGoOn(t *testing.T) {
	journals(t, func(t *testing.T, mode string) {
		f := newFoldHouseAt(t, 6000, mode, nil)
		for n := 1; n <= 3; n++ {
			f.ask1(n)
		}
		asked, gate := make(chan struct{}, 1), make(chan struct{})
		f.answers("aux", held(asked, gate))
		done := make(chan Compressed, 1)
		go func() {
			got, err := f.Compress(context.WithoutCancel(t.Context()), "s1", Compress{Here: 1})
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		<-asked
		l := turnLease(t, f.store)
		late := []sessiondb.NewMessage{{Role: roleUser, Content: "TA4Q late"}, {Role: roleAssistant, Content: "late answer"}}
		if _, err := f.store.Append(soon(t), l, late); err != nil {
			t.Fatal(err)
		}
		close(gate)
		if got := <-done; got.Status != CompressDone {
			t.Fatalf("%+v", got)
		}
		f.books(4)
		if rows := f.rows("s1"); rows[len(rows)-1].Content != "late answer" {
			t.Error(shape(rows))
		}
	})
}

func turnLease(t *testing.T, store *sessiondb.Store) sessiondb.Lease {
	t.Helper()
	leases, err := store.Leases(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		if l.Kind == sessiondb.Turn {
			return l
		}
	}
	t.Fatal("no turn lease is held")
	return sessiondb.Lease{}
}

// A compaction whose rows another one has folded meanwhile changes nothing and goes on from those.
func TestACompactionThatCameTooLateReloads(t *testing.T) {
	f := newFoldHouse(t, 100_000, nil)
	f.fill(8, 1000)
	f.answers("ask", func(r fakellm.Request) fakellm.Response {
		if len(r.Body)/4 > 3000 {
			return fakellm.Error{Status: 400, Message: tooLong}
		}
		return fakellm.Text{Text: "fits"}
	})
	f.answers("aux", func(fakellm.Request) fakellm.Response {
		f.foldBehindItsBack()
		return fakellm.Text{Text: "a summary that is too late"}
	})
	if r := f.ask1(1); r.Text != "fits" {
		t.Errorf("%+v", r)
	}
	if got := notesIn(f.rows("s1")); got != "the other one" {
		t.Errorf("notes: %q", got)
	}
	f.books(1)
}

// foldBehindItsBack commits another compaction of all but the last row.
func (f *foldHouse) foldBehindItsBack() {
	ctx := context.Background()
	leases, _ := f.store.Leases(ctx)
	for _, l := range leases {
		if l.Kind != sessiondb.Compacting {
			continue
		}
		rows, _ := f.store.Transcript(ctx, "s1")
		notes := sessiondb.NewMessage{Role: roleAssistant, Content: "the other one", Kind: sessiondb.KindSummary}
		_, err := f.store.ArchiveAndCompact(ctx, sessiondb.Compaction{
			Lease: l, Seen: sessiondb.See(rows), Rows: []sessiondb.CompactedRow{{Keep: rows[0].ID}, {New: notes}, {Keep: rows[len(rows)-1].ID}},
		})
		if err != nil {
			f.t.Error(err)
		}
	}
}

// A turn that finds its conversation being compacted by somebody else does not count that as a try of its own, and takes what the other
// one made.
func TestACompactionOfSomebodyElseIsNotDoneAgain(t *testing.T) {
	f := newFoldHouse(t, 100_000, nil)
	f.fill(8, 1000)
	self, err := sessiondb.SelfHolder("other")
	if err != nil {
		t.Fatal(err)
	}
	f.answers("ask", func(r fakellm.Request) fakellm.Response {
		if len(r.Body)/4 <= 3000 {
			return fakellm.Text{Text: "fits"}
		}
		l, err := f.store.AcquireCompaction(context.Background(), "s1", self, time.Minute)
		if err != nil {
			t.Error(err)
		}
		f.foldBehindItsBack()
		go func() { _ = f.store.Release(context.Background(), l) }()
		return fakellm.Error{Status: 400, Message: tooLong}
	})
	if r := f.ask1(1); r.Text != "fits" {
		t.Errorf("%+v", r)
	}
	f.books(1)
}

// A client that leaves while its conversation is being folded does not end that: whoever sends the next message would leave it again
// without one.
func TestAClientThatLeavesDoesNotEndACompaction(t *testing.T) {
	f := newFoldHouse(t, 6000, nil)
	asked, gate := make(chan struct{}, 1), make(chan struct{})
	f.answers("aux", held(asked, gate))
	ctx, leave := context.WithCancel(soon(t))
	defer leave()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; n < 12 && ctx.Err() == nil; n++ {
			_, _ = f.Say(ctx, Say{Session: "s1", Source: SourceAPI, Text: fmt.Sprintf("TA%dQ please", n)}, nil)
		}
	}()
	<-asked
	leave()
	close(gate)
	<-done
	if !strings.Contains(shape(f.rows("s1")), "summary") {
		t.Errorf("nothing was folded: %s", shape(f.rows("s1")))
	}
}
