package kanban

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gatewayd/internal/problem"
)

// Completion is a card's good end.
type Completion struct {
	Run          *RunID // the run that the caller acts for; nil = a person
	Force        bool   // complete under a live worker's feet
	Result       string
	Summary      string
	Metadata     map[string]any
	CreatedCards []string // cards the worker says it made; each is checked
	Artifacts    []string // files of the workspace that people should see; copied before the workspace goes
}

const (
	finishTask = `UPDATE tasks SET status = 'done', completed_at = ?, result = ?, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL,
    worker_started_at = NULL, current_run_id = NULL, block_kind = NULL, block_recurrences = 0, consecutive_failures = 0,
    last_failure_error = NULL, completion_contract = ? WHERE id = ?`
	insertClosedRun = `INSERT INTO task_runs (task_id, profile, step_key, status, started_at, ended_at, outcome, summary, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// A card is its maker's if the worker's lane or card stands as its creator, or if it hangs below the card.
	selectOwnCard = `SELECT EXISTS (SELECT 1 FROM tasks c WHERE c.id = ? AND (c.created_by IN (?, ?)
    OR EXISTS (SELECT 1 FROM task_links l WHERE l.parent_id = ? AND l.child_id = c.id)))`
)

// Complete ends a card well. Refused: a card in a state that cannot be done, open parents, a live worker that is not the
// caller, a superseded run (ErrStaleRun), an artifact that is no file of the card's workspace, an end with nothing to show,
// and cards that the worker claims to have made and did not. The last two leave an event, and the card as it was.
func (b *Board) Complete(ctx context.Context, task string, done Completion) error {
	done.Result, done.Summary = b.said(clean(strings.TrimSpace(done.Result))), b.said(clean(strings.TrimSpace(done.Summary)))
	done.CreatedCards, done.Metadata = unique(done.CreatedCards), b.saidObject(done.Metadata)
	metadata, err := encodeMap(done.Metadata)
	if err != nil {
		return invalidField("metadata", "metadata of "+cardThing(task), err.Error(), "send a plain JSON object")
	}
	shown, err := b.stage(ctx, task, done.Run, done.Artifacts)
	if err != nil {
		return err
	}
	var refused error
	err = b.write(ctx, "complete card", func(t *txn) (err error) {
		refused, err = t.complete(task, done, metadata, shown)
		return err
	})
	if drop := shown.settle(refused, err); drop != nil {
		b.log.Warn("copies of artifacts stay", "task", task, "error", drop)
	}
	if refused != nil && (err == nil || Committed(err)) {
		return refused // what is stored is the event of the refusal
	}
	return err
}

// complete answers refused where the card stays as it is but an event is kept.
func (t *txn) complete(task string, done Completion, metadata string, shown staged) (refused, err error) {
	card, err := loadTask(t.Conn, task)
	if err != nil {
		return nil, err
	}
	if err := t.mayEnd(card, done.Run, done.Force, time.Unix(t.now, 0)); err != nil {
		return nil, err
	}
	if err := t.completable(card); err != nil {
		return nil, err
	}
	if refused, err := t.evidence(card, done, metadata); refused != nil || err != nil {
		return refused, err
	}
	verified, refused, err := t.checkCards(card, done)
	if refused != nil || err != nil {
		return refused, err
	}
	contract, accepted, err := settleContract(card, done.Metadata)
	if err != nil {
		return nil, err
	}
	return nil, t.finish(card, done, metadata, shown, verified, contract, accepted)
}

func (t *txn) completable(card Task) error {
	switch card.Status {
	case StatusRunning, StatusReady, StatusBlocked, StatusReview:
	default:
		return conflict(card.ID, ErrConflict, "is %s and cannot be completed", card.Status)
	}
	open, err := openParents(t.Conn, card.ID)
	if err == nil && len(open) > 0 {
		err = conflict(card.ID, ErrParentsOpen, "waits for %s", joinSome(open, 5))
	}
	return err
}

// evidence: a completion without a word is how a worker that did nothing looks. A review needs none.
func (t *txn) evidence(card Task, done Completion, metadata string) (refused, err error) {
	if done.Summary != "" || done.Result != "" || metadata != "" || len(done.Artifacts) > 0 {
		return nil, nil
	}
	from := card.Status
	if card.CurrentRunID != 0 {
		if from, err = sourceStatus(t.Conn, card.CurrentRunID); err != nil {
			return nil, err
		}
	}
	if from == StatusReview {
		return nil, nil
	}
	err = t.event(card.ID, card.CurrentRunID, "completion_blocked_empty_result", payload{{"reason", "no summary, result or metadata"}})
	return &problem.Error{
		Kind: problem.Invalid, Thing: cardThing(card.ID), What: "cannot be completed with nothing to show", Fate: "the card was left as it is",
		Remedy: "say what was done, with --summary or --result", Field: "summary", Err: mark{ErrNoEvidence},
	}, err
}

// checkCards: every card that the worker says it made must exist and be its own. One that is not refuses the whole
// completion, and the event of that is all the transaction keeps.
func (t *txn) checkCards(card Task, done Completion) (verified []string, refused, err error) {
	var phantoms []string
	for _, id := range done.CreatedCards {
		var own bool
		if _, err := t.Row(selectOwnCard, []any{id, opt(card.Assignee), card.ID, card.ID}, &own); err != nil {
			return nil, nil, err
		}
		if own {
			verified = append(verified, id)
		} else {
			phantoms = append(phantoms, id)
		}
	}
	if len(phantoms) == 0 {
		return verified, nil, nil
	}
	if verified == nil {
		verified = []string{}
	}
	err = t.event(card.ID, card.CurrentRunID, "completion_blocked_hallucination", payload{
		{"phantom_cards", phantoms}, {"verified_cards", verified}, {"summary_preview", firstLine(done.words(), 200)},
	})
	return nil, &problem.Error{
		Kind: problem.Invalid, Thing: cardThing(card.ID), What: "cannot be completed: created_cards names " + joinSome(phantoms, 10) + ", which do not exist or are not this card's",
		Fate: "the card was left as it is", Remedy: "complete it again without them", Field: "created_cards", Err: mark{ErrPhantomCards},
	}, err
}

// words is what a completion says: the summary, else the result.
func (c Completion) words() string {
	if c.Summary != "" {
		return c.Summary
	}
	return c.Result
}

func (t *txn) finish(card Task, done Completion, metadata string, shown staged, verified []string, contract, accepted string) error {
	if err := t.must("finish card", finishTask, t.now, opt(done.Result), opt(contract), card.ID); err != nil {
		return err
	}
	run, err := t.closeWith(card, string(StatusDone), OutcomeCompleted, done.words(), metadata)
	if err != nil {
		return err
	}
	if done.Run == nil {
		if err := t.endWorker(card, Stop{Reason: "the card was completed"}); err != nil {
			return err
		}
	}
	p := payload{{"result_len", utf8.RuneCountInString(done.Result)}, {"summary", opt(firstLine(done.words(), 400))}}
	if len(verified) > 0 {
		p = append(p, field{"verified_cards", verified})
	}
	if paths := shown.paths(); len(paths) > 0 {
		p = append(p, field{"artifacts", paths})
	}
	if err := t.keep(card, shown); err != nil {
		return err
	}
	if accepted != "" {
		if err := t.event(card.ID, run, "pr_acceptance", payload{{"contract", card.CompletionContract}, {"published_pr", accepted}}); err != nil {
			return err
		}
	}
	if err := t.event(card.ID, run, EventCompleted, p); err != nil {
		return err
	}
	if err := t.scanProse(card.ID, run, done, verified); err != nil {
		return err
	}
	return t.promoteChildren(card.ID)
}

// closeWith closes the card's open run with a verdict. A card that nobody was running gets a run without duration, or its
// summary would have no place.
func (t *txn) closeWith(card Task, status, outcome, summary, metadata string) (RunID, error) {
	run := card.CurrentRunID
	if run != 0 {
		n, err := t.run("close run", closeRun, status, outcome, t.now, opt(summary), opt(metadata), nil, int64(run))
		if err != nil {
			return 0, err
		}
		if n == 1 {
			if err := t.withdrawStop(run); err != nil {
				return 0, err
			}
			_, err = t.run("close other runs", closeOtherRuns, t.now, card.ID)
			return run, err
		}
	}
	res, err := t.Exec(insertClosedRun, card.ID, opt(card.Assignee), opt(card.CurrentStepKey), status, t.now, t.now, outcome, opt(summary), opt(metadata))
	if err != nil {
		return 0, fmt.Errorf("record run: %w", err)
	}
	return RunID(res.LastID), nil
}

var (
	prURL = regexp.MustCompile(`^https?://github\.com/([^/\s]+/[^/\s]+)/pull/[0-9]+/?$`)
	// repository is what a pull request's URL must be of, as GitHub writes it.
	repository = regexp.MustCompile(`^[^/\s]+/[^/\s]+$`)

	prose = regexp.MustCompile(`\bt_[a-f0-9]{8,}\b`)
)

// settleContract checks what the card's contract wants published. A repository is bound to the first pull request that
// fulfils it.
func settleContract(card Task, metadata map[string]any) (contract, accepted string, err error) {
	contract = card.CompletionContract
	if contract == "" || contract == noWork {
		return contract, "", nil
	}
	pr, _ := metadata["published_pr"].(string)
	pr = strings.TrimSuffix(strings.TrimSpace(pr), "/")
	m := prURL.FindStringSubmatch(pr)
	switch {
	case m == nil:
		return "", "", invalidField("metadata", cardThing(card.ID), "must name its pull request", "set metadata.published_pr to its URL; the contract is "+contract)
	case prURL.MatchString(contract) && !strings.EqualFold(strings.TrimSuffix(contract, "/"), pr),
		!prURL.MatchString(contract) && !strings.EqualFold(contract, m[1]):
		return "", "", invalidField("metadata", cardThing(card.ID), "names pull request "+quote(pr)+", which its contract does not allow", "the contract is "+contract)
	}
	return pr, pr, nil
}

const (
	maxProseRefs = 50
	noWork       = "local-only" // a contract that wants nothing published
)

// scanProse notes ids that the words name and no card has. It is advice: models invent ids, and people follow them.
func (t *txn) scanProse(task string, run RunID, done Completion, verified []string) error {
	found := unique(prose.FindAllString(done.Summary+"\n"+done.Result, maxProseRefs))
	var phantoms []string
	for _, id := range found {
		if id == task || slices.Contains(verified, id) {
			continue
		}
		var one int64
		there, err := t.Row(selectTaskTaken, []any{id}, &one)
		if err != nil {
			return err
		}
		if !there {
			phantoms = append(phantoms, id)
		}
	}
	if len(phantoms) == 0 {
		return nil
	}
	return t.event(task, run, "suspected_hallucinated_references", payload{{"phantom_refs", phantoms}, {"source", "completion_summary"}})
}
