package kanban

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func (b *Board) subscribe(t *testing.T, in NewSubscription) Subscription {
	t.Helper()
	if in.Target == "" {
		in.Target, in.Address = TargetWebhook, "ops"
	}
	s, err := b.Subscribe(t.Context(), in)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return s
}

// sent is the kinds of a subscription's rows, oldest first.
func (b *Board) sent(t *testing.T, id int64) []string {
	t.Helper()
	rows, err := b.Outbox(t.Context(), OutboxFilter{Subscription: id})
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{}
	for _, p := range slices.Backward(rows) {
		kinds = append(kinds, p.Kind)
	}
	return kinds
}

func wantKinds(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}

func TestAnEventAndItsNotificationsAreOneTransaction(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Title: `say "hello"`, Assignee: "dev", SessionID: "s1"})
	mine := b.subscribe(t, NewSubscription{Task: card.ID})
	all := b.subscribe(t, NewSubscription{Kinds: []string{AllKinds}, Address: "log", Target: TargetCommand})
	b.make(t, NewTask{Title: "other"})
	run := b.mustClaim(t, card.ID)
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "it is done"}); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, b.sent(t, mine.ID), "completed")
	wantKinds(t, b.sent(t, all.ID), "created", "claimed", "completed")

	rows, err := b.Outbox(t.Context(), OutboxFilter{Subscription: mine.ID})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var body struct {
		Event struct {
			Kind    string
			Run     int64 `json:"run_id"`
			Payload map[string]any
		}
		Task map[string]any
	}
	if err := json.Unmarshal(rows[0].Body, &body); err != nil {
		t.Fatalf("%v in %s", err, rows[0].Body)
	}
	if body.Event.Kind != "completed" || body.Event.Run != int64(run) || body.Event.Payload["summary"] != "it is done" {
		t.Errorf("event is %+v", body.Event)
	}
	if body.Task["title"] != `say "hello"` || body.Task["status"] != "done" || body.Task["session_id"] != "s1" {
		t.Errorf("card is %v", body.Task)
	}
	if rows[0].Key == "" || len(rows[0].Key) < 32 {
		t.Errorf("key is %q", rows[0].Key)
	}
}

func TestEventsOfAProgramThatKnowsNoOutboxAreSweptOnce(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	s := b.subscribe(t, NewSubscription{Task: card.ID})
	from, added, err := b.Sweep(t.Context(), 0)
	if err != nil || added != 0 {
		t.Fatalf("swept %d, %v", added, err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: NOT shown that what Python's sqlite3 writes is swept")
	}
	script := `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for kind, payload in [("blocked", '{"reason": "why"}'), ("heartbeat", None), ("gave_up", "no json"), ("completed", None)]:
    db.execute("INSERT INTO task_events (task_id, kind, payload, created_at) VALUES (?, ?, ?, 1700000000)", (sys.argv[2], kind, payload))
db.execute("INSERT INTO task_events (task_id, kind, created_at) VALUES ('t_gone', 'completed', 1700000000)")
`
	if out, err := exec.Command(python, "-c", script, b.Path(), card.ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantKinds(t, b.sent(t, s.ID))
	again, added, err := b.Sweep(t.Context(), from)
	if err != nil || added != 3 {
		t.Fatalf("swept %d, %v", added, err)
	}
	wantKinds(t, b.sent(t, s.ID), "blocked", "gave_up", "completed")
	for _, from := range []int64{0, from, again} { // a daemon that begins anew, one that saw it, one that did it
		if _, added, err := b.Sweep(t.Context(), from); err != nil || added != 0 {
			t.Errorf("a sweep after event %d found %d rows missing, %v", from, added, err)
		}
	}
	rows, _ := b.Outbox(t.Context(), OutboxFilter{})
	keys := map[string]bool{}
	for _, p := range rows {
		keys[p.Key] = true
		if !json.Valid(p.Body) {
			t.Errorf("body of %s is %s", p.Kind, p.Body)
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d keys for 3 rows", len(keys))
	}
}

func TestASubscriptionTellsOnlyOfWhatComesAfterIt(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	b.mustBlock(t, parent.ID)
	s := b.subscribe(t, NewSubscription{Task: parent.ID, Kinds: []string{AllKinds}})
	if _, added, err := b.Sweep(t.Context(), 0); err != nil || added != 0 {
		t.Errorf("%d old events are news, %v", added, err)
	}
	wantKinds(t, b.sent(t, s.ID))
	child := b.make(t, NewTask{Parents: []string{parent.ID}})
	list, err := b.Subscriptions(t.Context(), child.ID)
	if err != nil || len(list) != 1 || list[0].Address != "ops" || !slices.Equal(list[0].Kinds, []string{AllKinds}) {
		t.Fatalf("the child has %+v, %v", list, err)
	}
	wantKinds(t, b.sent(t, list[0].ID))
	if _, err := b.Comment(t.Context(), child.ID, "me", "a word"); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, b.sent(t, list[0].ID), "commented")
	grandchild := b.make(t, NewTask{Parents: []string{parent.ID, child.ID}, CreatorTask: parent.ID})
	if list, _ := b.Subscriptions(t.Context(), grandchild.ID); len(list) != 1 {
		t.Errorf("one target is subscribed %d times", len(list))
	}
}

func (b *Board) mustBlock(t *testing.T, id string) {
	t.Helper()
	if err := b.Block(t.Context(), id, Block{Reason: "wait"}); err != nil {
		t.Fatal(err)
	}
}

// retried takes the next row and says that it could not be delivered.
func (b *Board) failed(t *testing.T, sub int64, d Delivery) Errand {
	t.Helper()
	e, ok, err := b.Take(t.Context(), sub, NewLease(time.Minute))
	if err != nil || !ok {
		t.Fatalf("take: %v, %v", ok, err)
	}
	if err := b.Record(t.Context(), e, d); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestARowKeepsItsKeyItsPlaceAndItsReasonUntilItIsDelivered(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	s := b.subscribe(t, NewSubscription{Task: card.ID})
	b.mustBlock(t, card.ID)
	if err := b.Unblock(t.Context(), card.ID, ""); err != nil {
		t.Fatal(err)
	}
	first := b.failed(t, s.ID, Delivery{Error: "connection refused", Next: time.Now().Add(time.Hour)})
	if _, ok, _ := b.Take(t.Context(), s.ID, NewLease(time.Minute)); ok {
		t.Error("the second event overtook the first")
	}
	errands, err := b.Errands(t.Context())
	if err != nil || len(errands) != 1 || errands[0].Parcel.Key != first.Parcel.Key || errands[0].Parcel.LastError != "connection refused" {
		t.Fatalf("errands are %+v, %v", errands, err)
	}
	if n, err := b.Retry(t.Context(), s.ID); err != nil || n != 2 {
		t.Fatalf("retried %d, %v", n, err)
	}
	again := b.failed(t, s.ID, Delivery{Error: "410 Gone", ParkAll: true})
	if again.Parcel.Key != first.Parcel.Key || again.Parcel.Kind != "blocked" {
		t.Errorf("took %+v, want the row of %+v", again.Parcel, first.Parcel)
	}
	b.mustBlock(t, card.ID) // while it is parked
	if errands, _ := b.Errands(t.Context()); len(errands) != 0 {
		t.Errorf("a parked subscription has errands: %+v", errands)
	}
	parked, err := b.Subscription(t.Context(), s.ID)
	if err != nil || parked.Parked != 3 || parked.ParkedAt == 0 || parked.ParkedReason != "410 Gone" {
		t.Errorf("subscription is %+v, %v", parked, err)
	}
	if n, err := b.Retry(t.Context(), s.ID); err != nil || n != 3 {
		t.Fatalf("retried %d, %v", n, err)
	}
	var kinds []string
	for {
		e, ok, err := b.Take(t.Context(), s.ID, NewLease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		kinds = append(kinds, e.Parcel.Kind)
		if err := b.Record(t.Context(), e, Delivery{Delivered: true}); err != nil {
			t.Fatal(err)
		}
	}
	wantKinds(t, kinds, "blocked", "unblocked", "blocked")
}

func TestOneProcessDeliversForASubscription(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	s := b.subscribe(t, NewSubscription{Task: card.ID})
	b.mustBlock(t, card.ID)
	take := func(l Lease) bool {
		t.Helper()
		_, ok, err := b.Take(t.Context(), s.ID, l)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	elsewhere := Lease{Holder: "elsewhere:12 boot:1|2", Until: time.Now().Add(time.Minute).Unix()}
	if !take(elsewhere) || take(NewLease(time.Minute)) {
		t.Error("two processes deliver for one subscription")
	}
	b.sql(t, `UPDATE gw_subscriptions SET lease_until = 1`)
	if !take(NewLease(time.Minute)) {
		t.Error("a lease that has run out holds")
	}
	mine := NewLease(time.Minute)
	host, print, _ := strings.Cut(mine.Holder, " ")
	b.sql(t, `UPDATE gw_subscriptions SET lease_holder = ?, lease_until = ?`, host[:strings.LastIndex(host, ":")]+":999999999 "+print, mine.Until)
	if !take(mine) {
		t.Error("the lease of a dead process holds")
	}
}

func TestWhatIsSubscribedIsChecked(t *testing.T) {
	b := newBoard(t)
	for _, in := range []NewSubscription{
		{Target: "mail", Address: "me"}, {Target: TargetWebhook}, {Target: TargetWebhook, Address: "x", Kinds: []string{"compleeted"}},
	} {
		if _, err := b.Subscribe(t.Context(), in); !problem.Is(err, problem.Invalid) {
			t.Errorf("%+v: %v", in, err)
		}
	}
	if _, err := b.Subscribe(t.Context(), NewSubscription{Task: "t_none", Target: TargetWebhook, Address: "x"}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	first := b.subscribe(t, NewSubscription{})
	second := b.subscribe(t, NewSubscription{Kinds: []string{"created"}})
	if first.ID != second.ID || !slices.Equal(second.Kinds, []string{"created"}) {
		t.Errorf("%+v and %+v", first, second)
	}
	if err := b.Unsubscribe(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{b.Unsubscribe(t.Context(), first.ID), func() error { _, err := b.Retry(t.Context(), first.ID); return err }()} {
		wantErr(t, err, ErrNotFound)
	}
	if third := b.subscribe(t, NewSubscription{}); third.ID <= first.ID {
		t.Error("the id of a subscription was used twice")
	}
}

func TestDeliveredRowsArePrunedAndNeverComeBack(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	s := b.subscribe(t, NewSubscription{Task: card.ID})
	b.mustBlock(t, card.ID)
	b.failed(t, s.ID, Delivery{Delivered: true})
	later := time.Now().Add(time.Hour)
	if n, err := b.PruneOutbox(t.Context(), later); err != nil || n != 0 {
		t.Errorf("pruned %d rows that a sweep would write again, %v", n, err)
	}
	b.sql(t, `UPDATE gw_subscriptions SET cursor = (SELECT MAX(id) FROM task_events)`)
	if n, err := b.PruneOutbox(t.Context(), later); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if _, added, err := b.Sweep(t.Context(), 0); err != nil || added != 0 {
		t.Errorf("%d rows came back, %v", added, err)
	}
}

func TestTheSessionThatCreatesACardIsToldOfIt(t *testing.T) {
	for _, tells := range []bool{true, false} {
		b := newBoard(t)
		b.tells = tells
		for range 2 { // the second finds the card by its key, and makes none
			card := b.make(t, NewTask{SessionID: "s1", CreatedBy: "chat", IdempotencyKey: "once"})
			list, err := b.Subscriptions(t.Context(), card.ID)
			if err != nil || (len(list) == 1) != tells {
				t.Fatalf("%v: %+v, %v", tells, list, err)
			}
			if tells && (list[0].Target != TargetSession || list[0].Address != "s1" || !slices.Equal(list[0].Kinds, NotifyKinds())) {
				t.Errorf("subscription is %+v", list[0])
			}
		}
		if rows, _ := b.Outbox(t.Context(), OutboxFilter{}); len(rows) != 0 {
			t.Errorf("it is told of what it did: %+v", rows)
		}
		plain := b.make(t, NewTask{})
		if list, _ := b.Subscriptions(t.Context(), plain.ID); len(list) != 0 {
			t.Errorf("nobody is told %+v", list)
		}
	}
}

func TestADeletedCardsLastWordsAreDeliveredAndThenItsSubscriptionGoes(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	s := b.subscribe(t, NewSubscription{Task: card.ID, Kinds: []string{AllKinds}})
	if _, err := b.Delete(t.Context(), card.ID); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, b.sent(t, s.ID), "deleted")
	prune := func() {
		t.Helper()
		if _, err := b.PruneOutbox(t.Context(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	b.failed(t, s.ID, Delivery{Error: "answered 404", Park: true})
	found, err := b.Diagnose(t.Context(), Thresholds{})
	if err != nil || len(found) != 1 || found[0].Kind != DiagnosticUndelivered || found[0].Detail != "answered 404" {
		t.Errorf("diagnosis is %+v, %v", found, err)
	}
	if _, err := b.Retry(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	b.failed(t, s.ID, Delivery{Delivered: true})
	prune()
	if list, err := b.Subscriptions(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
