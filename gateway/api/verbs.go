package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// change is what a request asks of a card, read from its body and not yet done. What it answers stands beside the card.
type change func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error)

// only is a change that has nothing to say but the card.
func only(do func(ctx context.Context, board *kanban.Board, card string) error) change {
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		return nil, do(ctx, board, card)
	}
}

// releases is a change that may leave a worker to be ended.
func releases(do func(ctx context.Context, board *kanban.Board, card string) (kanban.Released, error)) change {
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		released, err := do(ctx, board, card)
		return map[string]any{"released": released}, err
	}
}

// verbRoutes are the changes of a card that have a name: POST …/tasks/{task}/{verb}. A body is an object of the verb's fields and may be
// left out where none is needed; run_id, where a verb has it, is the fence.
func (s *server) verbRoutes(r chi.Router) {
	to := s.behind(r)
	for verb, parse := range map[string]func(object) (change, error){
		"complete": parseComplete, "block": parseBlock, "unblock": parseUnblock, "schedule": parseSchedule, "promote": parsePromote,
		"request-review": parseRequestReview, "request-changes": parseRequestChanges, "reopen-review": parseReopenReview,
		"specify": parseSpecify, "decompose": parseDecompose, "assign": parseAssign, "reassign": parseReassign, "reclaim": parseReclaim,
		"move": parseMove, "set-model": parseSetModel, "archive": parseArchive, "claim": parseClaim, "heartbeat": parseHeartbeat,
		"authorize-existing-pr": parseAuthorizePR,
	} {
		to.boards.Post("/api/boards/{board}/tasks/{task}/"+verb, s.handle(func(r *http.Request) (answer, error) {
			o, err := s.optionalBody(r)
			if err != nil {
				return answer{}, err
			}
			do, err := parse(o)
			if err != nil {
				return answer{}, err
			}
			return s.changeTask(r, do)
		}))
	}
}

// changeTask does a change to the card of the path, wakes the dispatcher and answers the card as it is now.
func (s *server) changeTask(r *http.Request, do change) (answer, error) {
	return s.onBoard(r, func(slug kanban.Slug, board *kanban.Board) (answer, error) {
		id := chi.URLParam(r, "task")
		beside, err := do(r.Context(), board, id)
		if err != nil {
			return answer{}, err
		}
		if !mutation.On("verb-wakes-nobody") {
			s.wake(slug)
		}
		card, err := board.Task(r.Context(), id)
		if err != nil {
			return answer{}, err
		}
		body := map[string]any{"task": card}
		maps.Copy(body, beside)
		return ok(body)
	})
}

func parseComplete(o object) (change, error) {
	var done kanban.Completion
	err := o.read(
		into("run_id", &done.Run), into("force", &done.Force), into("result", &done.Result), into("summary", &done.Summary),
		into("metadata", &done.Metadata), into("created_cards", &done.CreatedCards), into("artifacts", &done.Artifacts),
	)
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Complete(ctx, card, done)
	}), err
}

func parseBlock(o object) (change, error) {
	var block kanban.Block
	err := o.read(into("run_id", &block.Run), into("reason", &block.Reason), into("kind", &block.Kind), actorInto(&block.By))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Block(ctx, card, block)
	}), err
}

func parseUnblock(o object) (change, error) {
	var reason string
	err := o.read(into("reason", &reason))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Unblock(ctx, card, reason)
	}), err
}

// parseSchedule reads due_at as a moment in words or as epoch seconds.
func parseSchedule(o object) (change, error) {
	var plan kanban.Schedule
	err := o.read(
		into("run_id", &plan.Run), into("reason", &plan.Reason), into("rule", &plan.Rule), into("zone", &plan.Zone), dueInto(&plan),
	)
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		timer, err := board.Schedule(ctx, card, plan)
		return map[string]any{"timer": timer}, err
	}, err
}

func dueInto(plan *kanban.Schedule) func(object) error {
	return func(o object) error {
		var moment any
		if err := take(o, "due_at", &moment); err != nil {
			return err
		}
		switch m := moment.(type) {
		case nil:
		case float64:
			plan.Due = time.Unix(int64(m), 0)
		case string:
			due, err := kanban.ParseDue(m, plan.Zone, time.Now())
			if err != nil {
				return err
			}
			if plan.Due = due; plan.Rule == "" {
				plan.Zone = "" // it was the moment's
			}
		default:
			return errType("due_at", "a moment such as 2026-12-24T09:30:00Z, or epoch seconds", o.fields["due_at"])
		}
		return nil
	}
}

func parsePromote(o object) (change, error) {
	var reason, actor string
	var force, dry bool
	err := o.read(into("reason", &reason), actorInto(&actor), into("force", &force), into("dry_run", &dry))
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		if dry {
			would, err := board.WouldPromote(ctx, card, force)
			return map[string]any{"dry_run": true, "promotion": would}, err
		}
		return nil, board.PromoteByHand(ctx, card, reason, actor, force)
	}, err
}

// speaker is the name under which a client of the API writes when it gives none of its own.
const speaker = "api"

func actorInto(actor *string) func(object) error { return named("actor", actor) }

// named reads a field that says who speaks.
func named(field string, name *string) func(object) error {
	return func(o object) error {
		*name = speaker
		return take(o, field, name)
	}
}

func parseRequestReview(o object) (change, error) {
	var review kanban.Review
	err := o.read(
		into("run_id", &review.Run), into("force", &review.Force), into("summary", &review.Summary), into("reviewer", &review.Reviewer),
		into("metadata", &review.Metadata), into("artifacts", &review.Artifacts),
	)
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.RequestReview(ctx, card, review)
	}), err
}

func parseRequestChanges(o object) (change, error) {
	var run *kanban.RunID
	var reason string
	err := o.read(into("run_id", &run), into("reason", &reason))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.RequestChanges(ctx, card, run, reason)
	}), err
}

func parseReopenReview(o object) (change, error) {
	var reason string
	err := o.read(into("reason", &reason))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.ReopenReview(ctx, card, reason)
	}), err
}

func parseSpecify(o object) (change, error) {
	var spec kanban.Specification
	err := o.read(into("title", &spec.Title), into("body", &spec.Body), into("assignee", &spec.Assignee), named("author", &spec.Author))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Specify(ctx, card, spec)
	}), err
}

func parseDecompose(o object) (change, error) {
	var split kanban.Decomposition
	err := o.read(named("author", &split.Author), into("root_assignee", &split.RootAssignee), childrenInto(&split))
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		children, err := board.Decompose(ctx, card, split)
		return map[string]any{"children": children}, err
	}, err
}

func parseAssign(o object) (change, error) {
	var assignee *string
	err := o.read(wanted("assignee", &assignee))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Assign(ctx, card, *assignee)
	}), err
}

func parseReassign(o object) (change, error) {
	var assignee *string
	var reason, actor string
	var reclaim bool
	err := o.read(wanted("assignee", &assignee), into("reason", &reason), actorInto(&actor), into("reclaim_first", &reclaim))
	return releases(func(ctx context.Context, board *kanban.Board, card string) (kanban.Released, error) {
		return board.Reassign(ctx, card, *assignee, reason, actor, reclaim)
	}), err
}

// wanted reads a field that must be there.
func wanted(field string, dst **string) func(object) error {
	return func(o object) error {
		if err := take(o, field, dst); err != nil || *dst != nil {
			return err
		}
		return errField(o.name(field), "is missing")
	}
}

func parseReclaim(o object) (change, error) {
	var reason, actor string
	err := o.read(into("reason", &reason), actorInto(&actor))
	return releases(func(ctx context.Context, board *kanban.Board, card string) (kanban.Released, error) {
		return board.Reclaim(ctx, card, reason, actor)
	}), err
}

func parseMove(o object) (change, error) {
	var to *string
	move := kanban.Movement{}
	err := o.read(wanted("status", &to), into("reason", &move.Reason), actorInto(&move.Actor))
	return releases(func(ctx context.Context, board *kanban.Board, card string) (kanban.Released, error) {
		return board.Move(ctx, card, kanban.Status(*to), move)
	}), err
}

func parseSetModel(o object) (change, error) {
	var choice kanban.ModelChoice
	err := o.read(modelInto(&choice)...)
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.SetModel(ctx, card, choice)
	}), err
}

func modelInto(choice *kanban.ModelChoice) []func(object) error {
	return []func(object) error{
		clearable("model_override", "clear_model", &choice.Model), clearable("provider_override", "clear_provider", &choice.Provider),
		clearable("reasoning_effort", "clear_reasoning", &choice.Reasoning),
	}
}

// clearable reads a field that "" clears, and the flag by which Hermes' forms clear it.
func clearable(field, flag string, dst **string) func(object) error {
	return func(o object) error {
		var clear bool
		if err := errors.Join(take(o, field, dst), take(o, flag, &clear)); err != nil || !clear {
			return err
		}
		if *dst != nil && **dst != "" {
			return errField(o.name(flag), "does not go together with %s", field)
		}
		*dst = new("")
		return nil
	}
}

// parseAuthorizePR lets a card start once although a comment names a pull request.
func parseAuthorizePR(o object) (change, error) {
	var actor string
	err := o.read(actorInto(&actor))
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.AuthorizeExistingPR(ctx, card, actor)
	}), err
}

func parseArchive(o object) (change, error) {
	return only(func(ctx context.Context, board *kanban.Board, card string) error { return board.Archive(ctx, card) }), o.read()
}

// parseClaim takes a ready card, or one in review, for a worker that this daemon does not start.
func parseClaim(o object) (change, error) {
	var by kanban.Claimer
	err := o.read(into("lock", &by.Lock), secondsInto("ttl_seconds", &by.TTL), into("review", &by.Review))
	return func(ctx context.Context, board *kanban.Board, card string) (map[string]any, error) {
		claim, err := board.Claim(ctx, card, by)
		return map[string]any{"run": claim.Run, "claim_expires": claim.Run.ClaimExpires}, err
	}, err
}

func parseHeartbeat(o object) (change, error) {
	var run kanban.RunID
	var note string
	ttl := kanban.DefaultClaimTTL
	err := o.read(into("run_id", &run), into("note", &note), secondsInto("ttl_seconds", &ttl))
	if err == nil && run == 0 {
		err = errField("run_id", "is missing; it names the attempt that goes on")
	}
	return only(func(ctx context.Context, board *kanban.Board, card string) error {
		return board.Heartbeat(ctx, card, run, note, ttl)
	}), err
}

// secondsInto reads a length of time; it is the usual one where none is given.
func secondsInto(field string, dst *time.Duration) func(object) error {
	return func(o object) error {
		var n *int64
		if err := take(o, field, &n); err != nil || n == nil {
			return err
		}
		if *n < 1 || *n > 86400 {
			return errField(o.name(field), "must be from 1 to 86400, not %d", *n)
		}
		*dst = time.Duration(*n) * time.Second
		return nil
	}
}
