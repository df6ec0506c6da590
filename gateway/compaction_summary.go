package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// taskCompaction is what the tokens of summaries are counted under.
const taskCompaction = "compaction"

// summary has what was chosen summarised. Where that fails it is decided here what follows: nothing is done and the
// conversation is left alone for a while, or it goes on with what can be said without a model. A word in the result ends the pass.
func (p *pass) summary(f compact.Fold) (string, folded) {
	text, err := p.ask(f, p.summariser())
	if err == nil {
		return p.complete(f, text), folded{asked: true}
	}
	why := reason(err)
	if p.orInterrupted("") != "" {
		return "", folded{word: interrupted, asked: true, err: err}
	}
	p.state = compact.Failed(p.state, time.Now(), soft(err), why)
	p.remember(p.state)
	switch {
	case crowded(err):
		return "", folded{word: aborted, asked: true, err: err}
	case p.tuned.Compaction.Strict, !p.poorer(err):
		return "", folded{word: summarizeFailed, asked: true, err: err}
	}
	return p.complete(f, f.Fallback(why, p.redact)), folded{asked: true, fallback: true, err: err}
}

// poorer reports whether the conversation goes on with a summary made without a model: when it does not fit as it is, when the
// summariser hangs again and again, and when it wrote what must not stand there.
func (p *pass) poorer(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	hung := ok && e.Class == provider.Timeout || p.outOfTime()
	return p.proven || hung && compact.Repeated(p.state) || errors.Is(err, compact.ErrRejected)
}

// complete adds what is found without a model.
func (p *pass) complete(f compact.Fold, text string) string {
	for _, more := range []string{f.Tasks(p.redact), f.References(p.redact)} {
		if more != "" {
			text += joinAnswer + more
		}
	}
	return text
}

func (p *pass) redact(text string) string { return kanban.Redact(text, p.tuned.Compaction.Secrets...) }

// summariser is the model for summaries; that of the conversation where there is no other.
func (p *pass) summariser() provider.Model {
	if p.tuned.Aux != nil {
		return p.tuned.Aux
	}
	return p.model
}

// ask asks a model, and the conversation's own when another one failed.
func (p *pass) ask(f compact.Fold, by provider.Model) (string, error) {
	prompt := f.Prompt(p.topic)
	text, err := p.askOne(prompt, by)
	if err == nil || sameModel(by, p.model) || p.ctx.Err() != nil {
		return text, err
	}
	p.log.Warn("summary failed, the conversation's own model is asked", "error", err)
	return p.askOne(prompt, p.model)
}

// sameModel compares by name: models of tests cannot be compared otherwise.
func sameModel(a, b provider.Model) bool {
	x, y := a.Describe(), b.Describe()
	return x.Name == y.Name && x.BaseURL == y.BaseURL
}

var temperature = 0.1 // a summary is no place for fancy

func (p *pass) askOne(prompt compact.Prompt, by provider.Model) (string, error) {
	answer, err := by.Complete(p.ctx, provider.Request{
		System: prompt.System, Messages: []provider.Message{{Role: roleUser, Content: prompt.User}},
		MaxTokens: prompt.MaxTokens, Temperature: &temperature, Caller: provider.Caller{Class: provider.CallerAux, Session: p.session},
	}, p.sign)
	p.touch()
	p.spend(by, answer, err)
	switch {
	case err != nil:
		return "", err
	case answer.FinishReason == "length":
		return "", fmt.Errorf("the summary was cut off after %d tokens", answer.Usage.Completion)
	case len(answer.ToolCalls) > 0:
		return "", fmt.Errorf("%w: it calls a tool", compact.ErrRejected)
	}
	return compact.Check(answer.Text, prompt, p.redact)
}

// sign takes what arrives of a summary for a sign of life, and passes on what the way to the model says to people.
func (p *pass) sign(d provider.Delta) {
	p.touch()
	if d.Notice != "" {
		p.say(d.Notice)
	}
}

// spend counts what a summary cost beside the turn's own requests.
func (p *pass) spend(by provider.Model, answer provider.Response, failed error) {
	if failed != nil {
		if answer = partialOf(failed); answer.Usage == (provider.Usage{}) {
			return
		}
	}
	about := by.Describe()
	name := answer.Model
	if name == "" {
		name = about.Name
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), writeTimeout)
	defer cancel()
	err := p.g.opts.Store.AddUsage(ctx, sessiondb.UsageDelta{
		Session: p.session, Model: name, Provider: about.Provider, Task: taskCompaction,
		Counts: sessiondb.Counts{Calls: 1, Prompt: answer.Usage.Prompt, Completion: answer.Usage.Completion, Cached: answer.Usage.Cached, Reasoning: answer.Usage.Reasoning},
	})
	if err != nil {
		p.log.Warn("usage not stored", "error", err)
	}
}

// soft is a failure that says nothing about the next try: an empty answer, or a stream that broke.
func soft(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return errors.Is(err, compact.ErrEmpty) || ok && e.Class == provider.Transport
}

// crowded is a summariser without room for us. It has the next time, and a poorer summary would be for ever.
func crowded(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && (e.Class == provider.Overloaded || e.Class == provider.RateLimit)
}

// reason is the failure in a few words, for people.
func reason(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*provider.Error](err); ok {
		text = string(e.Class) + ": " + e.Message
	}
	return strings.TrimRight(text, ".")
}
