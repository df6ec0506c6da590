package kanban

import "fmt"

const selectUndelivered = `SELECT s.id, s.task_id, s.target, s.address, COUNT(*), MIN(o.parked_at), MAX(o.parked_at), MAX(COALESCE(s.parked_reason, o.last_error, ''))
FROM gw_outbox o JOIN gw_subscriptions s ON s.id = o.subscription_id WHERE o.delivered_at IS NULL AND o.parked_at IS NOT NULL GROUP BY s.id ORDER BY s.id`

// undelivered: notifications that nobody tries to deliver any more.
func (d *diagnosis) undelivered() error {
	for row, err := range d.Query(selectUndelivered) {
		if err != nil {
			return err
		}
		c := &cursor{row: row}
		id, task, target, address := c.num(), c.text(), c.text(), c.text()
		f := Diagnostic{
			Kind: DiagnosticUndelivered, Severity: SeverityError, Task: task, Count: int(c.num()), First: c.num(), Last: c.num(), Detail: c.text(),
			Data: map[string]any{"subscription_id": id, "target": target, "address": address},
		}
		f.Title = fmt.Sprintf("%d notifications for %s %s are parked", f.Count, target, address)
		f.Actions = []Action{
			hint("deliver them once the cause is gone", fmt.Sprintf("gatewayd kanban notify retry %d", id), true),
			hint("give them up", fmt.Sprintf("gatewayd kanban notify unsubscribe %d", id), false),
		}
		d.add(f)
	}
	return nil
}
