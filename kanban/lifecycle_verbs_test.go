package kanban

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// reopens is what each card that was built on a reopened one goes through.
const reopens = `( (assigned )?commented descendant_invalidated status)*`

// written is what a verb may leave in the history, as the kinds of its events in a row.
var written = map[string]*regexp.Regexp{
	"schedule":        regexp.MustCompile(`^scheduled$`),
	"wake":            regexp.MustCompile(`^((unblocked|created recurred|recurrence_passed_over|recurrence_set_back) ?)*$`),
	"promote":         regexp.MustCompile(`^(unlinked )*promoted_manual$`),
	"request review":  regexp.MustCompile(`^review_requested$`),
	"request changes": regexp.MustCompile(`^changes_requested$`),
	"reopen review":   regexp.MustCompile(`^review_reopened` + reopens + `$`),
	"specify":         regexp.MustCompile(`^specified( promoted)?$`),
	"decompose":       regexp.MustCompile(`^(created( dependency_wait)? linked )+decomposed$`),
	"edit":            regexp.MustCompile(`^(edited)?( ?reprioritized)?$`),
	"set model":       regexp.MustCompile(`^(model_override_set)?( ?reasoning_effort_set)?$`),
	"reclaim":         regexp.MustCompile(`^(stop_requested|reclaimed)$`),
	"terminate":       regexp.MustCompile(`^(stop_requested|reclaimed)$`),
	"reassign":        regexp.MustCompile(`^(stop_requested|reclaimed( assigned)?|assigned|)$`),
	"delete":          regexp.MustCompile(`^deleted( promoted)*$`),
	"purge":           regexp.MustCompile(`^deleted( promoted)*$`),
	"stopped":         regexp.MustCompile(`^(terminal_worker_reaped|archive_worker_termination)?$`),
	"move": regexp.MustCompile(`^(archived( promoted)*|completed( promoted)*|blocked( block_loop_detected)?|stop_requested|scheduled|review_requested` +
		`|promoted_manual|unblocked|reclaimed( assigned)? status( promoted)?|(assigned )?status` + reopens + `( promoted)?)$`),
}

// verb plays one: refused it changes nothing, done it leaves exactly its events.
func (l *life) verb(t *rapid.T, name string, do func(context.Context) error) bool {
	ctx := context.Background()
	before, err := l.b.rows(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := l.b.LatestEvent(ctx)
	if err := do(ctx); err != nil {
		if kind := problem.KindOf(err); kind != problem.Conflict && kind != problem.Invalid && kind != problem.NotFound {
			t.Fatalf("%s: %v", name, err)
		}
		if after, _ := l.b.rows(ctx); after != before {
			t.Fatalf("%s was refused (%v) and changed the board:\n%s\n---\n%s", name, err, before, after)
		}
		return false
	}
	events, err := l.b.Events(ctx, last, 10000)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		if e.Kind == "descendant_invalidated" {
			l.over(e.TaskID)
		}
	}
	if said := strings.Join(kinds, " "); !written[name].MatchString(said) {
		t.Fatalf("%s wrote %q", name, said)
	}
	return true
}

// taken notes what a verb answered about a card that may have been running.
func (l *life) taken(card string, r Released) {
	if r.Now {
		l.over(card)
	}
}

// ClaimHere claims a card for a worker that lives on this machine: the test itself.
func (l *life) ClaimHere(t *rapid.T) {
	card := l.card(t)
	claim, err := l.b.Claim(context.Background(), card, Claimer{})
	allowed(t, "claim here", err)
	if err != nil {
		return
	}
	l.open[card] = claim.Run.ID
	if err := l.b.Spawned(context.Background(), card, claim.Run.ID, os.Getpid(), procfs.Fingerprint(os.Getpid()), "here"); err != nil {
		t.Fatal(err)
	}
}

func (l *life) Stopped(t *rapid.T) {
	card := l.card(t)
	if len(l.past[card]) == 0 {
		t.Skip("no run is over")
	}
	run := rapid.SampledFrom(l.past[card]).Draw(t, "run")
	l.verb(t, "stopped", func(ctx context.Context) error { return l.b.Stopped(ctx, run, nil) })
}

func (l *life) CreateIdea(t *rapid.T) {
	card, err := l.b.Create(context.Background(), NewTask{Title: "idea", Triage: true})
	if err != nil {
		t.Fatal(err)
	}
	l.cards = append(l.cards, card.ID)
}

func (l *life) Schedule(t *rapid.T) {
	card := l.card(t)
	s := Schedule{Rule: rapid.SampledFrom([]string{"", "", "@daily"}).Draw(t, "rule")}
	if rapid.Bool().Draw(t, "due") {
		s.Due = time.Now().Add(time.Hour)
	}
	if rapid.Bool().Draw(t, "worker") {
		run, _ := l.run(t, card)
		s.Run = &run
	}
	if l.verb(t, "schedule", func(ctx context.Context) error { _, err := l.b.Schedule(ctx, card, s); return err }) {
		l.over(card)
	}
}

func (l *life) Wake(t *rapid.T) {
	ahead := time.Duration(rapid.IntRange(0, 72).Draw(t, "hours")) * time.Hour
	l.verb(t, "wake", func(ctx context.Context) error {
		woken, _, err := l.b.WakeDue(ctx, time.Now().Add(ahead))
		for _, id := range woken {
			if !slices.Contains(l.cards, id) {
				l.cards = append(l.cards, id)
			}
		}
		return err
	})
}

func (l *life) PromoteByHand(t *rapid.T) {
	card, force := l.card(t), rapid.Bool().Draw(t, "force")
	l.verb(t, "promote", func(ctx context.Context) error { return l.b.PromoteByHand(ctx, card, "r", "ann", force) })
}

func (l *life) RequestReview(t *rapid.T) {
	card := l.card(t)
	r := Review{Summary: "s", Reviewer: rapid.SampledFrom([]string{"", "critic"}).Draw(t, "reviewer"), Force: rapid.Bool().Draw(t, "force")}
	if rapid.Bool().Draw(t, "worker") {
		run, _ := l.run(t, card)
		r.Run = &run
	}
	if l.verb(t, "request review", func(ctx context.Context) error { return l.b.RequestReview(ctx, card, r) }) {
		l.over(card)
	}
}

func (l *life) ClaimReview(t *rapid.T) {
	card := l.card(t)
	claim, err := l.b.Claim(context.Background(), card, Claimer{Review: true})
	allowed(t, "claim review", err)
	if err == nil {
		l.open[card] = claim.Run.ID
	}
}

func (l *life) RequestChanges(t *rapid.T) {
	card := l.card(t)
	var fence *RunID
	if rapid.Bool().Draw(t, "worker") {
		run, _ := l.run(t, card)
		fence = &run
	}
	if l.verb(t, "request changes", func(ctx context.Context) error { return l.b.RequestChanges(ctx, card, fence, "r") }) {
		l.over(card)
	}
}

func (l *life) ReopenReview(t *rapid.T) {
	card := l.card(t)
	l.verb(t, "reopen review", func(ctx context.Context) error { return l.b.ReopenReview(ctx, card, "r") })
}

func (l *life) Specify(t *rapid.T) {
	card := l.card(t)
	l.verb(t, "specify", func(ctx context.Context) error { return l.b.Specify(ctx, card, Specification{Body: new("more")}) })
}

func (l *life) Decompose(t *rapid.T) {
	card := l.card(t)
	children := []NewTask{{Title: "part"}, {Title: "part", Parents: []string{"#1"}}}
	if other := l.card(t); rapid.Bool().Draw(t, "waits") {
		children[0].Parents = []string{other}
	}
	l.verb(t, "decompose", func(ctx context.Context) error {
		made, err := l.b.Decompose(ctx, card, Decomposition{Children: children})
		for _, part := range made {
			l.cards = append(l.cards, part.ID)
		}
		return err
	})
}

func (l *life) Edit(t *rapid.T) {
	card := l.card(t)
	e := Edit{}
	switch rapid.IntRange(0, 2).Draw(t, "field") {
	case 0:
		e.Title = new(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "title"))
	case 1:
		e.Priority = new(rapid.Int64Range(0, 2).Draw(t, "priority"))
	case 2:
		e.Result = new("r")
	}
	l.verb(t, "edit", func(ctx context.Context) error { return l.b.Edit(ctx, card, e) })
}

func (l *life) SetModel(t *rapid.T) {
	card := l.card(t)
	words := rapid.SampledFrom([]string{"", "m"})
	m := ModelChoice{Model: new(words.Draw(t, "model")), Provider: new(words.Draw(t, "provider"))}
	l.verb(t, "set model", func(ctx context.Context) error { return l.b.SetModel(ctx, card, m) })
}

func (l *life) Reclaim(t *rapid.T) {
	card := l.card(t)
	l.verb(t, "reclaim", func(ctx context.Context) error {
		r, err := l.b.Reclaim(ctx, card, "r", "ann")
		l.taken(card, r)
		return err
	})
}

func (l *life) Terminate(t *rapid.T) {
	card := l.card(t)
	run, _ := l.run(t, card)
	l.verb(t, "terminate", func(ctx context.Context) error {
		r, err := l.b.Terminate(ctx, run, "r", "ann")
		l.taken(card, r)
		return err
	})
}

func (l *life) Reassign(t *rapid.T) {
	card, reclaim := l.card(t), rapid.Bool().Draw(t, "reclaim")
	to := rapid.SampledFrom([]string{"dev", "ops", "none"}).Draw(t, "to")
	l.verb(t, "reassign", func(ctx context.Context) error {
		r, err := l.b.Reassign(ctx, card, to, "r", "ann", reclaim)
		l.taken(card, r)
		return err
	})
}

func (l *life) Move(t *rapid.T) {
	card, to := l.card(t), rapid.SampledFrom(Statuses()).Draw(t, "to")
	l.verb(t, "move", func(ctx context.Context) error {
		r, err := l.b.Move(ctx, card, to, Movement{Reason: "r"})
		l.taken(card, r)
		return err
	})
}

func (l *life) Delete(t *rapid.T) {
	card := l.card(t)
	name, remove := "purge", l.b.Purge
	if rapid.Float64().Draw(t, "really") > 0.8 {
		name, remove = "delete", l.b.Delete
	}
	if l.verb(t, name, func(ctx context.Context) error { _, err := remove(ctx, card); return err }) {
		l.cards = slices.DeleteFunc(l.cards, func(id string) bool { return id == card })
		delete(l.open, card)
	}
}
