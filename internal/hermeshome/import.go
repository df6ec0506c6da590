package hermeshome

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// Options say what comes from where.
type Options struct {
	Dir    string        // of Hermes
	Home   config.Loaded // the home that it comes to, and what is set there already
	DryRun bool          // write nothing, neither here nor there

	// Conversations brings the rows of the state.db of a directory; the home's store is its business.
	Conversations func(ctx context.Context, dir string) (sessiondb.Moved, error)
}

// Import brings what the directory holds. The report is whole also beside an error, which is one of this home's (its report cannot be
// written, its context ended): what went wrong with a thing of the directory is in the report.
func Import(ctx context.Context, o Options) (*Report, error) {
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.NotFound, Thing: "directory " + o.Dir, What: "cannot be read", Fate: "nothing was imported", Remedy: "name the directory of Hermes", Err: err}
	}
	m := &move{Options: o, report: &Report{Source: dir, Home: o.Home.Home, DryRun: o.DryRun, State: Running, Begun: time.Now().UTC()}}
	m.Dir = dir
	err = m.run(ctx)
	m.report.finish(err)
	return m.report, errors.Join(err, m.report.save())
}

type move struct {
	Options
	report *Report
	boards *kanban.Root // of Hermes; nil where it has none
}

// run takes stock first, so that whatever breaks later cannot hide anything.
func (m *move) run(ctx context.Context) error {
	if err := m.survey(); err != nil {
		return err
	}
	if err := m.report.save(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{m.moveSettings, m.moveBoards, m.moveConversations} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stays says why an entry of the directory is not brought.
var stays = map[string]string{
	"SOUL.md":       "its text may go into agent.system_prompt",
	"memories":      "gatewayd has no memories between conversations",
	"skills":        "gatewayd has no skills",
	"cron":          "gatewayd has no cron jobs; a recurring card may do the same: `gatewayd kanban schedule`",
	"logs":          "logs stay where they were written",
	"sessions":      "the conversations are in state.db; these files are older copies of them",
	"sessions.json": "which chat goes on in which conversation is known to Hermes' chats alone",
	"auth.json":     "sign-ins are not brought; gatewayd takes keys",
	"cache":         "a cache",
}

// survey takes every entry of the directory into the account.
func (m *move) survey() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return &problem.Error{Kind: problem.Denied, Thing: "directory " + m.Dir, What: "cannot be listed", Fate: "nothing was imported", Remedy: "check owner and permissions", Err: err}
	}
	for _, e := range entries {
		m.surveyEntry(e)
	}
	return m.surveyBoards()
}

func (m *move) surveyEntry(e fs.DirEntry) {
	name := e.Name()
	switch {
	case name == "state.db":
		m.report.find("file", name)
	case name == "config.yaml", name == ".env":
		m.report.find("file", name)
	case name == "kanban.db", name == "kanban":
		// what is in them is taken into the account by itself
	case name == "profiles" && e.IsDir():
		m.surveyProfiles()
	case stays[name] != "":
		m.report.settle("file", name, Skipped, stays[name], "")
	case strings.HasPrefix(name, "state.db"), strings.HasPrefix(name, "kanban.db"):
		m.report.settle("file", name, Skipped, "belongs to the database of that name, or is an old copy of it", "")
	default:
		m.report.settle("file", name, Skipped, "gatewayd knows nothing of it", "")
	}
}

// surveyProfiles: a profile is a home of its own there, and here.
func (m *move) surveyProfiles() {
	entries, err := os.ReadDir(filepath.Join(m.Dir, "profiles"))
	if err != nil {
		m.report.settle("file", "profiles", Failed, err.Error(), "")
	}
	for _, e := range entries {
		path := filepath.Join(m.Dir, "profiles", e.Name())
		m.report.settle("profile", e.Name(), Skipped, fmt.Sprintf("is a home of its own: gatewayd --home %s-%s import hermes %s", m.Home.Home, e.Name(), path), "")
	}
}

// moveConversations accounts for each session of state.db.
func (m *move) moveConversations(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(m.Dir, "state.db")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	got, err := m.Conversations(ctx, m.Dir)
	if got.Source != "" {
		m.report.Conversations = &got
	}
	for _, s := range got.Sessions {
		outcome, reason := outcomeOf(s)
		m.report.settle("session", s.Session, outcome, reason, "")
	}
	if got.Orphans > 0 {
		m.report.settle("messages", "of no session", Skipped, fmt.Sprintf("%d messages belong to no session of the file", got.Orphans), "")
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		m.report.settle("file", "state.db", Failed, err.Error(), "")
	case got.Added == 0 && got.New == 0:
		m.report.settle("file", "state.db", Present, "", "")
	default:
		m.report.settle("file", "state.db", Imported, "", "")
	}
	return nil
}

func outcomeOf(s sessiondb.Outcome) (Outcome, string) {
	reason := s.Reason
	if s.Skipped > 0 {
		reason = fmt.Sprintf("%d messages not brought: %s", s.Skipped, s.Reason)
	}
	switch {
	case s.New || s.Added > 0:
		return Imported, reason
	case s.Skipped > 0 && s.Present == 0:
		return Skipped, reason
	}
	return Present, reason
}
