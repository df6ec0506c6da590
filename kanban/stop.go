package kanban

import "context"

// Stop is a request to end the worker of a run and then to let its card go. The dispatcher fulfils it: a card never
// becomes dispatchable while its worker lives.
type Stop struct {
	Run      RunID  `json:"run_id"`
	Task     string `json:"task_id"`
	Reason   string `json:"reason"`
	Actor    string `json:"actor"`
	To       Status `json:"to_status"` // "" = where the card was claimed from
	Assignee string `json:"assignee"`  // "" = as it is, "-" = nobody
	At       int64  `json:"at"`
}

// Released says what became of a card that was taken from its run.
type Released struct {
	Status      Status
	Now         bool     // false = the worker lives on this host: only a stop request was written
	Worker      int      // the pid of the worker that has to end, 0 = none
	Descendants []string // cards that were put back because this one was reopened
}

// Reclaim takes a running card from its worker. It is a fresh start for the breaker.
func (b *Board) Reclaim(ctx context.Context, task, reason, actor string) (Released, error) {
	return Released{}, notYet(task, "reclaimed")
}

// Reassign gives a card to another lane or person; with reclaim a running one is reclaimed first.
func (b *Board) Reassign(ctx context.Context, task, assignee, reason, actor string, reclaim bool) (Released, error) {
	return Released{}, notYet(task, "reassigned")
}

// Terminate is Reclaim by the run.
func (b *Board) Terminate(ctx context.Context, run RunID, reason, actor string) (Released, error) {
	return Released{}, notYet("", "reclaimed")
}
