package kanban

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Targets of a subscription. What an address of each means is package notify's to know.
const (
	TargetWebhook = "webhook" // the name of a webhook of the configuration
	TargetCommand = "command" // the name of a command of the configuration
	TargetSession = "session" // the id of a chat session
)

// Targets lists them.
func Targets() []string { return []string{TargetWebhook, TargetCommand, TargetSession} }

// AllKinds subscribes to every kind of event, those of other programs too.
const AllKinds = "*"

// NotifyKinds are the events that a subscription tells of unless it names others: what a person wants to hear of a card.
func NotifyKinds() []string {
	return []string{
		EventCompleted, EventBlocked, EventGaveUp, EventCrashed, EventTimedOut, "status", "archived", EventUnblocked,
		"block_loop_detected", "review_requested", "changes_requested",
	}
}

// otherKinds may be subscribed to as well. A kind that nobody writes would be a subscription that never says anything.
var otherKinds = []string{
	"created", "deleted", "promoted", "promoted_manual", "claimed", "claim_rejected", "claim_extended", "spawned", "heartbeat", "dependency_wait",
	"scheduled", "review_reopened", "archive_worker_termination", "imported", "assigned", "edited", "reprioritized", "model_override_set",
	"reasoning_effort_set", "linked", "unlinked", "commented", "attached", "attachment_removed", "specified", "decomposed",
	"descendant_invalidated", "reclaimed", "reclaim_deferred", "reconciled", "stale", "spawn_failed", "rate_limited", "protocol_violation",
	"respawn_guarded", "skipped_nonspawnable", "terminal_worker_reaped", "completion_blocked_hallucination",
	"completion_blocked_empty_result", "suspected_hallucinated_references", "workspace_discarded_content", "tip_scratch_workspace",
	"recurred", "recurrence_passed_over", "recurrence_set_back", "recurrence_ended", "stop_requested", "worker_registered", EventFailureSpared,
	"pr_acceptance", "existing_pr_authorized", "existing_pr_authorization_consumed",
}

// NewSubscription asks that a target be told of events from now on.
type NewSubscription struct {
	Task            string   // "" = every card of the board
	Kinds           []string // none = NotifyKinds; AllKinds
	Target, Address string
	By              string
}

// Subscription is who is told of what.
type Subscription struct {
	ID           int64
	Task         string // "" = every card of the board
	Kinds        []string
	Target       string
	Address      string
	CreatedBy    string
	CreatedAt    int64
	ParkedAt     int64 // nothing is delivered since; 0 = it is
	ParkedReason string
	Lease        Lease

	Pending, Parked, Delivered int   // rows of the outbox; pending ones are neither parked nor delivered
	Oldest                     int64 // when the oldest row that was not delivered was written; 0 = there is none
	LastDelivered              int64
	LastError                  string // of the row that is next
}

type subscriptionWire struct {
	ID            int64    `json:"id"`
	Task          *string  `json:"task"`
	Kinds         []string `json:"kinds"`
	Target        string   `json:"target"`
	Address       string   `json:"address"`
	CreatedBy     *string  `json:"created_by"`
	CreatedAt     int64    `json:"created_at"`
	ParkedAt      *int64   `json:"parked_at"`
	ParkedReason  *string  `json:"parked_reason"`
	Pending       int      `json:"pending"`
	Parked        int      `json:"parked"`
	Delivered     int      `json:"delivered"`
	Oldest        *int64   `json:"oldest_undelivered_at"`
	LastDelivered *int64   `json:"last_delivered_at"`
	LastError     *string  `json:"last_error"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Subscription) JSONShape() any { return subscriptionWire{} }

// MarshalJSON gives the shape of the API.
func (s Subscription) MarshalJSON() ([]byte, error) {
	return json.Marshal(subscriptionWire{
		s.ID, opt(s.Task), s.Kinds, s.Target, s.Address, opt(s.CreatedBy), s.CreatedAt, opt(s.ParkedAt), opt(s.ParkedReason),
		s.Pending, s.Parked, s.Delivered, opt(s.Oldest), opt(s.LastDelivered), opt(s.LastError),
	})
}

const (
	selectSubscribed = `SELECT id FROM gw_subscriptions WHERE task_id IS ? AND target = ? AND address = ?`
	insertSubscribed = `INSERT INTO gw_subscriptions (task_id, kinds, target, address, created_by, created_at, cursor) VALUES (?, ?, ?, ?, ?, ?, ?)`
	updateSubscribed = `UPDATE gw_subscriptions SET kinds = ? WHERE id = ? AND kinds <> ?`
	deleteSubscribed = `DELETE FROM gw_subscriptions WHERE id = ?`
	deleteUnsent     = `DELETE FROM gw_outbox WHERE subscription_id = ?`

	// What is copied hears of the new card from here on: how it came to be is no news.
	copySubscribed = `INSERT INTO gw_subscriptions (task_id, kinds, target, address, created_by, created_at, cursor)
SELECT ?1, s.kinds, s.target, s.address, s.created_by, ?2, ?3 FROM gw_subscriptions s WHERE s.task_id = ?4
    AND NOT EXISTS (SELECT 1 FROM gw_subscriptions o WHERE o.task_id = ?1 AND o.target = s.target AND o.address = s.address)`

	selectSubscriptions = `SELECT s.id, s.task_id, s.kinds, s.target, s.address, s.created_by, s.created_at, s.parked_at, s.parked_reason,
    s.lease_holder, s.lease_until,
    (SELECT COUNT(*) FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NULL AND o.parked_at IS NULL),
    (SELECT COUNT(*) FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NULL AND o.parked_at IS NOT NULL),
    (SELECT COUNT(*) FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NOT NULL),
    (SELECT MIN(o.created_at) FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NULL),
    (SELECT MAX(o.delivered_at) FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NOT NULL),
    (SELECT o.last_error FROM gw_outbox o WHERE o.subscription_id = s.id AND o.delivered_at IS NULL ORDER BY o.event_id LIMIT 1)
FROM gw_subscriptions s `
)

// Subscribe has a target told of what happens from now on. The same target twice on one card, or twice on one board, is one
// subscription, which then tells of the newer kinds. Whether the address leads anywhere is for the caller to check.
func (b *Board) Subscribe(ctx context.Context, in NewSubscription) (Subscription, error) {
	in, err := in.checked()
	if err != nil {
		return Subscription{}, err
	}
	var made Subscription
	err = b.write(ctx, "subscribe", func(t *txn) error {
		if in.Task != "" {
			if _, err := loadTask(t.Conn, in.Task); err != nil {
				return err
			}
		}
		id, err := t.subscribe(in)
		if err != nil {
			return err
		}
		made, err = loadSubscription(t.Conn, id)
		return err
	})
	return made, err
}

func (t *txn) subscribe(in NewSubscription) (id int64, err error) {
	kinds := strings.Join(in.Kinds, " ")
	there, err := t.Row(selectSubscribed, []any{opt(in.Task), in.Target, in.Address}, &id)
	if err != nil {
		return 0, err
	}
	if there {
		_, err := t.run("subscribe", updateSubscribed, kinds, id, kinds)
		return id, err
	}
	var newest int64
	if _, err := t.Row(selectLatestEvent, nil, &newest); err != nil {
		return 0, err
	}
	res, err := t.Exec(insertSubscribed, opt(in.Task), kinds, in.Target, in.Address, opt(in.By), t.now, newest)
	if err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	return res.LastID, nil
}

func (in NewSubscription) checked() (NewSubscription, error) {
	in.By, in.Address = clean(strings.TrimSpace(in.By)), clean(strings.TrimSpace(in.Address))
	switch {
	case !slices.Contains(Targets(), in.Target):
		return in, invalid("target "+quote(in.Target), "is not known", "use one of "+strings.Join(Targets(), ", "))
	case in.Address == "":
		return in, invalid("the subscription", "names no "+in.Target, "say which one")
	case len(in.Kinds) == 0:
		in.Kinds = NotifyKinds()
	}
	known := append(NotifyKinds(), otherKinds...)
	for _, kind := range in.Kinds {
		if kind != AllKinds && !slices.Contains(known, kind) {
			slices.Sort(known)
			return in, invalid("event kind "+quote(kind), "is not known", "use * for all, or some of "+strings.Join(known, ", "))
		}
	}
	in.Kinds = unique(in.Kinds)
	return in, nil
}

// Unsubscribe ends a subscription and forgets what was not delivered. One that is not there is a NotFound problem.
func (b *Board) Unsubscribe(ctx context.Context, id int64) error {
	return b.write(ctx, "unsubscribe", func(t *txn) error {
		n, err := t.run("unsubscribe", deleteSubscribed, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return missingSubscription(id)
		}
		_, err = t.run("unsubscribe", deleteUnsent, id)
		return err
	})
}

// Subscriptions lists those of a card, or of the whole board and all its cards with "", with how their deliveries stand.
func (b *Board) Subscriptions(ctx context.Context, task string) ([]Subscription, error) {
	var list []Subscription
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		where, args := "ORDER BY s.id", []any{}
		if task != "" {
			where, args = "WHERE s.task_id = ? "+where, []any{task}
		}
		list, err = collect(c, scanSubscription, selectSubscriptions+where, args...)
		return err
	})
	return list, err
}

// Subscription gives one.
func (b *Board) Subscription(ctx context.Context, id int64) (Subscription, error) {
	var s Subscription
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		s, err = loadSubscription(c, id)
		return err
	})
	return s, err
}

func loadSubscription(c *sqlite.Conn, id int64) (Subscription, error) {
	list, err := collect(c, scanSubscription, selectSubscriptions+"WHERE s.id = ?", id)
	if err != nil {
		return Subscription{}, err
	}
	if len(list) == 0 {
		return Subscription{}, missingSubscription(id)
	}
	return list[0], nil
}

func scanSubscription(row *sqlite.Row) Subscription {
	c := &cursor{row: row}
	return Subscription{
		ID: c.num(), Task: c.text(), Kinds: strings.Fields(c.text()), Target: c.text(), Address: c.text(), CreatedBy: c.text(), CreatedAt: c.num(),
		ParkedAt: c.num(), ParkedReason: c.text(), Lease: Lease{Holder: c.text(), Until: c.num()},
		Pending: int(c.num()), Parked: int(c.num()), Delivered: int(c.num()), Oldest: c.num(), LastDelivered: c.num(), LastError: c.text(),
	}
}

func missingSubscription(id int64) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: fmt.Sprintf("subscription %d", id), What: "is not on this board", Fate: unchanged,
		Remedy: "list them with `gatewayd kanban notify list`", Err: mark{ErrNotFound},
	}
}
