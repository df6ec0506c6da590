package kanban

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Parcel is one row of the outbox: one event for one subscriber.
type Parcel struct {
	ID           int64
	Subscription int64
	Event        int64
	Task         string
	Kind         string
	Key          string          // the same at each attempt: the receiver knows by it what it has already
	Body         json.RawMessage // {"event": …, "task": …} as it was when the event was written
	CreatedAt    int64
	Attempts     int64 // begun, since the last retry by hand
	TriedAt      int64 // of the first of them
	NextAt       int64 // not before
	LastError    string
	ParkedAt     int64
	DeliveredAt  int64
}

// State is pending, parked or delivered.
func (p Parcel) State() string {
	switch {
	case p.DeliveredAt != 0:
		return "delivered"
	case p.ParkedAt != 0:
		return "parked"
	}
	return "pending"
}

type parcelWire struct {
	ID           int64   `json:"id"`
	Subscription int64   `json:"subscription_id"`
	Event        int64   `json:"event_id"`
	Task         string  `json:"task"`
	Kind         string  `json:"kind"`
	Key          string  `json:"key"`
	State        string  `json:"state"`
	CreatedAt    int64   `json:"created_at"`
	Attempts     int64   `json:"attempts"`
	NextAt       *int64  `json:"next_at"`
	LastError    *string `json:"last_error"`
	ParkedAt     *int64  `json:"parked_at"`
	DeliveredAt  *int64  `json:"delivered_at"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Parcel) JSONShape() any { return parcelWire{} }

// MarshalJSON gives the shape of the API.
func (p Parcel) MarshalJSON() ([]byte, error) {
	return json.Marshal(parcelWire{
		p.ID, p.Subscription, p.Event, p.Task, p.Kind, p.Key, p.State(), p.CreatedAt, p.Attempts, opt(p.NextAt), opt(p.LastError),
		opt(p.ParkedAt), opt(p.DeliveredAt),
	})
}

// Errand is a subscription with the row that is its next: the others wait behind it, so that their order is kept.
type Errand struct {
	Parcel  Parcel
	Target  string
	Address string
	Lease   Lease
}

// News of the outbox, by what it is not: nothing that a subscription has had, and nothing from before it was made. The
// events stand first, because there are few of them and the subscriptions of one card are found by their index.
const news = `FROM task_events e CROSS JOIN gw_subscriptions s ON (s.task_id = e.task_id OR s.task_id IS NULL)
    AND (s.kinds = '*' OR instr(' ' || s.kinds || ' ', ' ' || e.kind || ' ') > 0) AND s.cursor < e.id
LEFT JOIN tasks t ON t.id = e.task_id
WHERE e.id BETWEEN ?1 AND ?2`

const (
	insertNews = `INSERT OR IGNORE INTO gw_outbox (subscription_id, event_id, task_id, kind, key, body, created_at, parked_at)
SELECT s.id, e.id, e.task_id, e.kind, 'gwn_' || lower(hex(randomblob(16))),
    json_object('event', json_object('id', e.id, 'kind', e.kind, 'run_id', e.run_id, 'created_at', e.created_at,
            'payload', json(CASE WHEN json_valid(e.payload) THEN e.payload END)),
        'task', json_object('id', e.task_id, 'title', t.title, 'status', t.status, 'assignee', t.assignee, 'tenant', t.tenant,
            'priority', t.priority, 'created_by', t.created_by, 'session_id', t.session_id)),
    ?3, CASE WHEN s.parked_at IS NULL THEN NULL ELSE ?3 END ` + news

	// selectMissed asks for what has no row yet: a Hermes process writes events and knows of no outbox.
	selectMissed = `SELECT 1 ` + news + ` AND NOT EXISTS (SELECT 1 FROM gw_outbox o WHERE o.subscription_id = s.id AND o.event_id = e.id) LIMIT 1`
	// selectSwept is where a sweep begins that knows of none before it. 0 subscriptions give no row.
	selectSwept   = `SELECT MIN(cursor) FROM gw_subscriptions HAVING COUNT(*) > 0`
	advanceSwept  = `UPDATE gw_subscriptions SET cursor = ? WHERE cursor < ?`
	parcelColumns = `o.id, o.subscription_id, o.event_id, o.task_id, o.kind, o.key, o.body, o.created_at, o.attempts, o.tried_at, o.next_at,
    o.last_error, o.parked_at, o.delivered_at`
	selectErrands = `SELECT ` + parcelColumns + `, s.target, s.address, s.lease_holder, s.lease_until
FROM (SELECT subscription_id AS id, MIN(event_id) AS event FROM gw_outbox WHERE delivered_at IS NULL AND parked_at IS NULL GROUP BY subscription_id) h
JOIN gw_outbox o ON o.subscription_id = h.id AND o.event_id = h.event JOIN gw_subscriptions s ON s.id = h.id
WHERE s.parked_at IS NULL ORDER BY o.event_id`
	selectErrand = `SELECT ` + parcelColumns + `, s.target, s.address, s.lease_holder, s.lease_until
FROM gw_subscriptions s JOIN gw_outbox o ON o.subscription_id = s.id AND o.delivered_at IS NULL AND o.parked_at IS NULL
WHERE s.id = ? AND s.parked_at IS NULL ORDER BY o.event_id LIMIT 1`
)

// post writes the rows of the events from first to last, in the transaction that wrote the events.
func (t *txn) post(first, last int64) error {
	if mutation.On("outbox-left-to-the-sweep") {
		return nil
	}
	_, err := t.run("write outbox", insertNews, first, last, t.now)
	return err
}

// lag is how many events a sweep may be ahead of the cursors in the file: moving them is a write.
const lag = 500

// Sweep writes the rows of events after from that have none, because a program wrote them that knows of no outbox. from is
// what the last Sweep answered, 0 the first time. It gives the newest event that it has seen to, and the number of rows.
// Where nothing is missing it only reads.
func (b *Board) Sweep(ctx context.Context, from int64) (to, added int64, err error) {
	missed, behind := false, false
	err = b.peek(ctx, func(c *sqlite.Conn) (err error) {
		to, missed, behind, err = lookBack(c, from)
		return err
	})
	if err != nil || !missed && !behind {
		return to, 0, err
	}
	err = b.write(ctx, "sweep outbox", func(t *txn) (err error) {
		if added, err = t.run("sweep outbox", insertNews, from+1, to, t.now); err != nil {
			return err
		}
		_, err = t.run("sweep outbox", advanceSwept, to, to)
		return err
	})
	return to, added, stored(err)
}

func lookBack(c *sqlite.Conn, from int64) (to int64, missed, behind bool, err error) {
	var swept, one int64
	if _, err = c.Row(selectLatestEvent, nil, &to); err != nil {
		return from, false, false, err
	}
	there, err := c.Row(selectSwept, nil, &swept)
	if err != nil || !there || to <= from {
		return max(from, to), false, false, err
	}
	missed, err = c.Row(selectMissed, []any{max(from, swept) + 1, to}, &one)
	return to, missed, to-swept > lag, err
}

// stored makes an error of a commit that did happen no error: what was written is found again.
func stored(err error) error {
	if Committed(err) {
		return nil
	}
	return err
}

// Errands gives for each subscription that has something to deliver its next row, whether its time has come or not.
func (b *Board) Errands(ctx context.Context) ([]Errand, error) {
	var list []Errand
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanErrand, selectErrands)
		return err
	})
	return list, err
}

func scanErrand(row *sqlite.Row) Errand {
	c := &cursor{row: row}
	return Errand{Parcel: c.parcel(), Target: c.text(), Address: c.text(), Lease: Lease{Holder: c.text(), Until: c.num()}}
}

func (c *cursor) parcel() Parcel {
	return Parcel{
		ID: c.num(), Subscription: c.num(), Event: c.num(), Task: c.text(), Kind: c.text(), Key: c.text(), Body: json.RawMessage(c.text()),
		CreatedAt: c.num(), Attempts: c.num(), TriedAt: c.num(), NextAt: c.num(), LastError: c.text(), ParkedAt: c.num(), DeliveredAt: c.num(),
	}
}

const (
	takeLease   = `UPDATE gw_subscriptions SET lease_holder = ?, lease_until = ? WHERE id = ?`
	countTry    = `UPDATE gw_outbox SET attempts = attempts + 1, tried_at = COALESCE(tried_at, ?) WHERE id = ?`
	letGo       = `UPDATE gw_subscriptions SET lease_holder = NULL, lease_until = 0 WHERE id = ? AND lease_holder = ?`
	setDone     = `UPDATE gw_outbox SET delivered_at = ?, last_error = NULL WHERE id = ? AND key = ?`
	setFailed   = `UPDATE gw_outbox SET next_at = ?, last_error = ? WHERE id = ? AND key = ?`
	parkOne     = `UPDATE gw_outbox SET parked_at = ? WHERE id = ? AND key = ? AND delivered_at IS NULL`
	parkRest    = `UPDATE gw_outbox SET parked_at = ? WHERE subscription_id = ? AND delivered_at IS NULL AND parked_at IS NULL`
	parkAll     = `UPDATE gw_subscriptions SET parked_at = ?, parked_reason = ? WHERE id = ? AND parked_at IS NULL`
	unparkAll   = `UPDATE gw_subscriptions SET parked_at = NULL, parked_reason = NULL WHERE id = ?`
	unparkRows  = `UPDATE gw_outbox SET parked_at = NULL, attempts = 0, tried_at = NULL, next_at = 0 WHERE subscription_id = ? AND delivered_at IS NULL`
	selectStale = `SELECT EXISTS (SELECT 1 FROM gw_outbox WHERE delivered_at < ?) OR EXISTS (SELECT 1 FROM gw_subscriptions s WHERE ` + saidAll + `)`
	deleteIdle  = `DELETE FROM gw_subscriptions AS s WHERE ` + saidAll
	// saidAll: its card was deleted, and all that there was to say of it is said.
	saidAll = `s.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = s.task_id)
    AND NOT EXISTS (SELECT 1 FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NULL)`
	deleteStale = `DELETE FROM gw_outbox WHERE id IN (SELECT o.id FROM gw_outbox o LEFT JOIN gw_subscriptions s ON s.id = o.subscription_id
WHERE o.delivered_at < ? AND o.event_id <= COALESCE(s.cursor, o.event_id) ORDER BY o.delivered_at LIMIT ?)`
)

// Take leases a subscription and gives its next row, with the attempt counted, before anything is sent. ok is false when
// there is none whose time has come or when another process delivers for it.
func (b *Board) Take(ctx context.Context, subscription int64, lease Lease) (e Errand, ok bool, err error) {
	err = b.write(ctx, "take from outbox", func(t *txn) error {
		e, ok = Errand{}, false
		list, err := collect(t.Conn, scanErrand, selectErrand, subscription)
		if err != nil || len(list) == 0 {
			return err
		}
		e = list[0]
		if !e.Parcel.due(t.now) || !e.Lease.free(lease.Holder, t.now) {
			return nil
		}
		if err := t.must("take from outbox", takeLease, lease.Holder, lease.Until, subscription); err != nil {
			return err
		}
		e.Lease, ok = lease, true
		e.Parcel.Attempts++
		if e.Parcel.TriedAt == 0 {
			e.Parcel.TriedAt = t.now
		}
		return t.must("take from outbox", countTry, t.now, e.Parcel.ID)
	})
	return e, ok && err == nil, err
}

// maxWait is longer than any wait that a delivery is given. A later time was written under another clock.
const maxWait = 7 * 24 * 3600

func (p Parcel) due(now int64) bool { return p.NextAt <= now || p.NextAt > now+maxWait }

// Due reports whether the row's time has come.
func (p Parcel) Due(now time.Time) bool { return p.due(now.Unix()) }

// Delivery is what came of an attempt. The zero value says that it must be made again at once.
type Delivery struct {
	Delivered bool
	Error     string    // why not
	Next      time.Time // not before
	Park      bool      // no further attempt by itself
	ParkAll   bool      // nor for the rest of the subscription
}

// Record says what came of an attempt and gives the lease back. A row that is gone, because somebody unsubscribed, is no error.
func (b *Board) Record(ctx context.Context, e Errand, d Delivery) error {
	p := e.Parcel
	err := b.write(ctx, "record delivery", func(t *txn) error {
		if _, err := t.run("record delivery", letGo, p.Subscription, e.Lease.Holder); err != nil {
			return err
		}
		if d.Delivered {
			_, err := t.run("record delivery", setDone, t.now, p.ID, p.Key)
			return err
		}
		next := int64(0)
		if !d.Next.IsZero() {
			next = d.Next.Unix()
		}
		if _, err := t.run("record delivery", setFailed, next, opt(clean(cut(d.Error, maxDeliveryError))), p.ID, p.Key); err != nil {
			return err
		}
		return t.parkParcel(p, d)
	})
	return stored(err)
}

const maxDeliveryError = 500

func (t *txn) parkParcel(p Parcel, d Delivery) (err error) {
	if d.Park || d.ParkAll {
		_, err = t.run("park delivery", parkOne, t.now, p.ID, p.Key)
	}
	if err != nil || !d.ParkAll {
		return err
	}
	if _, err = t.run("park subscription", parkAll, t.now, clean(cut(d.Error, maxDeliveryError)), p.Subscription); err == nil {
		_, err = t.run("park subscription", parkRest, t.now, p.Subscription)
	}
	return err
}

// Retry begins anew with everything that a subscription has not delivered, parked or not, in its order. It gives the
// number of rows.
func (b *Board) Retry(ctx context.Context, subscription int64) (rows int64, err error) {
	err = b.write(ctx, "retry deliveries", func(t *txn) error {
		n, err := t.run("retry deliveries", unparkAll, subscription)
		if err != nil {
			return err
		}
		if n == 0 {
			return missingSubscription(subscription)
		}
		rows, err = t.run("retry deliveries", unparkRows, subscription)
		return err
	})
	return rows, stored(err)
}

// pruneAtOnce bounds how long other writers wait for a clean-up.
const pruneAtOnce = 1000

// PruneOutbox forgets rows that were delivered before a moment, at most 1,000, and gives their number. Where there are none
// it only reads. A row that a sweep could still find missing stays. Subscriptions of deleted cards go with them.
func (b *Board) PruneOutbox(ctx context.Context, before time.Time) (gone int64, err error) {
	some := false
	err = b.peek(ctx, func(c *sqlite.Conn) (err error) {
		_, err = c.Row(selectStale, []any{before.Unix()}, &some)
		return err
	})
	if err != nil || !some {
		return 0, err
	}
	err = b.write(ctx, "prune outbox", func(t *txn) (err error) {
		if gone, err = t.run("prune outbox", deleteStale, before.Unix(), pruneAtOnce); err == nil {
			_, err = t.run("prune outbox", deleteIdle)
		}
		return err
	})
	return gone, stored(err)
}

// OutboxFilter narrows a list of rows; zero values do not.
type OutboxFilter struct {
	Subscription int64
	State        string // pending, parked or delivered
	Limit        int    // 0 = 200
}

// Outbox lists rows, the newest event first.
func (b *Board) Outbox(ctx context.Context, f OutboxFilter) ([]Parcel, error) {
	states := map[string]string{
		"": "1", "pending": "o.delivered_at IS NULL AND o.parked_at IS NULL",
		"parked": "o.delivered_at IS NULL AND o.parked_at IS NOT NULL", "delivered": "o.delivered_at IS NOT NULL",
	}
	where, ok := states[f.State]
	if !ok {
		return nil, invalidField("state", "state "+quote(f.State), "is not known", "use pending, parked or delivered")
	}
	if f.Limit <= 0 {
		f.Limit = maxEvents
	}
	if f.Subscription != 0 {
		where += " AND o.subscription_id = " + strconv.FormatInt(f.Subscription, 10)
	}
	var list []Parcel
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, func(row *sqlite.Row) Parcel { return (&cursor{row: row}).parcel() },
			`SELECT `+parcelColumns+` FROM gw_outbox o WHERE `+where+` ORDER BY o.event_id DESC, o.subscription_id LIMIT ?`, f.Limit)
		return err
	})
	return list, err
}

// OutboxCounts is how the deliveries of a board stand.
type OutboxCounts struct {
	Subscriptions int `json:"subscriptions"`
	Pending       int `json:"pending"`
	Parked        int `json:"parked"` // rows that wait for a person
}

const countOutbox = `SELECT (SELECT COUNT(*) FROM gw_subscriptions),
    (SELECT COUNT(*) FROM gw_outbox WHERE delivered_at IS NULL AND parked_at IS NULL),
    (SELECT COUNT(*) FROM gw_outbox WHERE delivered_at IS NULL AND parked_at IS NOT NULL)`

// OutboxCounts counts them.
func (b *Board) OutboxCounts(ctx context.Context) (n OutboxCounts, err error) {
	err = b.peek(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(countOutbox, nil, &n.Subscriptions, &n.Pending, &n.Parked)
		return err
	})
	return n, err
}

// Probe makes a row that belongs to no event, for a test of a subscription; it is in no file.
func (s Subscription) Probe(key string, now time.Time) Errand {
	body := fmt.Sprintf(`{"event": {"id": 0, "kind": "test", "run_id": null, "created_at": %d, "payload": null}, "task": null}`, now.Unix())
	return Errand{
		Parcel: Parcel{Subscription: s.ID, Kind: "test", Task: s.Task, Key: key, Body: json.RawMessage(body), CreatedAt: now.Unix(), Attempts: 1},
		Target: s.Target, Address: s.Address,
	}
}

// NeverServed is the error of a delivery whose target no daemon has.
func NeverServed(target, address string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: target + " " + quote(address), What: "is known to no daemon that serves this board", Fate: "the notification is kept",
		Remedy: "configure it and retry the subscription, or unsubscribe",
	}
}
