package slash

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// model is /model [name | default] [--once]. A choice is the session's, is kept over a restart and ends with /new.
func (r *Runner) model(ctx context.Context, c Context, line Line) (Reply, error) {
	name, once := "", false
	for _, word := range strings.Fields(line.Args) {
		switch {
		case word == "--once":
			once = true
		case strings.HasPrefix(word, "-"), name != "":
			return Reply{}, errUsage(line.Command, "does not know %.50q", word)
		default:
			name = word
		}
	}
	if name == "" && once {
		return Reply{}, errUsage(line.Command, "wants the name of a model beside --once")
	}
	if name == "" {
		return r.showModel(ctx, c)
	}
	about, err := r.find(name)
	if err != nil {
		return Reply{}, err
	}
	if err := r.ensure(ctx, c); err != nil {
		return Reply{}, err
	}
	before, err := r.Store.ChangeSettings(ctx, c.Session, func(s *sessiondb.Settings) {
		switch {
		case once && name == "default" && !mutation.On("default-is-a-models-name"):
			s.Once = about.Name
		case once:
			s.Once = name
		case name == "default":
			s.Model, s.Provider, s.Once = "", "", ""
		default:
			s.Model, s.Provider, s.Once = name, about.Provider, ""
		}
	})
	if err != nil {
		return Reply{}, err
	}
	r.resetBreaker(about.Name)
	return r.chose(ctx, c, about, before, once), nil
}

// find gives the model of a name, which is looked up before anything is changed.
func (r *Runner) find(name string) (provider.Description, error) {
	about := r.Model()
	if name == "default" || name == about.Name {
		return about, nil
	}
	if r.Models == nil {
		return about, &problem.Error{
			Kind: problem.NotFound, Thing: "model " + name, What: "cannot be chosen: only " + orUnnamed(about.Name) + " is configured", Fate: "nothing was changed", Remedy: "see model in config.yaml",
		}
	}
	if len(name) > longestName {
		return about, &problem.Error{Kind: problem.Invalid, Thing: "model", What: fmt.Sprintf("cannot be called %.40q…, of %d bytes", name, len(name)), Fate: "nothing was changed"}
	}
	model, err := r.Models(name)
	if err != nil {
		return about, err
	}
	return model.Describe(), nil
}

// longestName is far above the bytes of any model's name.
const longestName = 256

// ensure makes the session that a choice is for, when nothing was said in it yet.
func (r *Runner) ensure(ctx context.Context, c Context) error {
	_, err := r.Store.Session(ctx, c.Session)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		_, err = r.Store.CreateSession(ctx, sessiondb.NewSession{ID: c.Session, Source: c.Source, Prompt: r.SystemPrompt, Model: r.Model().Name})
	}
	return err
}

// chose says what was chosen, and whether what was said so far fits into the window of the model.
func (r *Runner) chose(ctx context.Context, c Context, about provider.Description, now sessiondb.Settings, once bool) Reply {
	text := fmt.Sprintf("%s at %s answers here from the next message on.", orUnnamed(about.Name), orUnnamed(about.Provider))
	if once {
		text = fmt.Sprintf("%s at %s answers the next message, and no other.", orUnnamed(about.Name), orUnnamed(about.Provider))
	}
	if _, busy := r.running(c.Session); busy {
		text += " The running turn keeps its own."
	}
	data := map[string]any{"model": about.Name, "provider": about.Provider, "once": once, "override": now.Model}
	if w, err := r.window(ctx, c.Session); err == nil {
		length := w.Tokens
		if about.ContextLength > 0 {
			length = about.ContextLength
		}
		data["context"], data["context_length"] = w, length
		if length > 0 && w.Used > length {
			text += fmt.Sprintf(" What was said so far is %d tokens and %d fit: it is compressed before the next message is answered.", w.Used, length)
		}
	}
	return Reply{Text: text, Data: data}
}

func (r *Runner) showModel(ctx context.Context, c Context) (Reply, error) {
	s := Status{Session: c.Session}
	if err := s.model(ctx, r); err != nil && !errors.Is(err, sessiondb.ErrSessionMissing) {
		return Reply{}, err
	}
	text := fmt.Sprintf("%s at %s answers here%s.", orUnnamed(s.Model), orUnnamed(s.Provider), map[string]string{"session": ", chosen by /model", "once": " next, and no other message"}[s.Chosen])
	data := map[string]any{"model": s.Model, "provider": s.Provider, "chosen": s.Chosen}
	if r.ModelNames != nil {
		names := r.ModelNames()
		data["models"] = names
		text += " There are: " + strings.Join(names, ", ") + "."
	}
	return Reply{Text: text, Data: data}, nil
}

func (r *Runner) resetBreaker(model string) {
	if r.ResetBreaker != nil {
		r.ResetBreaker(model)
	}
}
