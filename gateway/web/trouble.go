package web

import (
	"errors"
	"net/http"
	"strings"

	"gatewayd/gateway/api"
	"gatewayd/internal/problem"
)

// trouble is an error as people read it.
type trouble struct {
	Thing, What, Fate, Remedy string
	Back, BackWord            string // where to go on
}

// statuses is the one table from a kind of trouble to a page's status; the API's says the same.
var statuses = map[problem.Kind]int{
	problem.Invalid: http.StatusBadRequest, problem.NotFound: http.StatusNotFound, problem.Conflict: http.StatusConflict,
	problem.Denied: http.StatusForbidden, problem.Busy: http.StatusTooManyRequests, problem.Full: http.StatusInsufficientStorage,
	problem.Unavailable: http.StatusServiceUnavailable, problem.Damaged: http.StatusServiceUnavailable,
	problem.NotRunning: http.StatusServiceUnavailable, problem.Restart: http.StatusServiceUnavailable, problem.Interrupted: http.StatusServiceUnavailable,
}

// sentence is a trouble on one line.
func (t trouble) sentence() string {
	text := strings.TrimSpace(t.Thing + " " + t.What)
	for _, clause := range []string{t.Fate, t.Remedy} {
		if clause != "" {
			text += "; " + clause
		}
	}
	return text
}

// asTrouble gives the words of an error. What is no problem for a person is ours, and its words stay in the log.
func asTrouble(err error) (trouble, int) {
	p, ok := errors.AsType[*problem.Error](err)
	status := statuses[problem.KindOf(err)]
	if !ok || status == 0 {
		return trouble{What: "Something in gatewayd went wrong", Remedy: "the daemon's log has the details"}, http.StatusInternalServerError
	}
	return trouble{Thing: p.Thing, What: p.What, Fate: p.Fate, Remedy: p.Remedy}, status
}

// errorPage shows an error in the frame of the page that was asked for.
func (s *site) errorPage(r *http.Request, p page, err error) page {
	words, status := asTrouble(err)
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Warn("page failed", "path", r.URL.Path, "status", status, "error", err)
	}
	if words.Back == "" {
		words.Back, words.BackWord = "/", "All boards"
		if p.Board != "" {
			words.Back, words.BackWord = "/boards/"+string(p.Board), "Board "+string(p.Board)
		}
	}
	return page{View: "trouble", Title: http.StatusText(status), Mark: p.Mark, Board: p.Board, Status: status, Data: words}
}

func (s *site) notFound(r *http.Request) (page, error) {
	return page{}, &problem.Error{Kind: problem.NotFound, Thing: r.URL.Path, What: "is no page here", Remedy: "the pages are listed above"}
}

// off says that a page's source is not there.
func off(what string) error {
	return &problem.Error{Kind: problem.Unavailable, Thing: what, What: "is off in this daemon"}
}

// loginView is what the login form shows. Next is where to go afterwards: a path of this page, never another host's.
type loginView struct{ Next, Problem string }

// loginProblems are the reasons for which POST /login sends people back here, as ?problem= names them.
var loginProblems = map[string]string{
	"wrong": "This key is not known here. Nothing was changed; paste it again.", "limited": "Too many wrong keys came from this address. Wait a minute, then try again.",
	"missing": "Paste a key first.", "ended": "You were logged out, because the key is gone or the login is older than 30 days.",
}

// login answers GET /login. POST /login is the API's, which knows the keys.
func (s *site) login(r *http.Request) (page, error) {
	q := r.URL.Query()
	return page{View: "login", Title: "Log in", Data: loginView{api.LocalPath(q.Get("next")), loginProblems[q.Get("problem")]}}, nil
}
