package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

const (
	sessionsOnPage = 50
	hitsOnPage     = 50
)

// sessionsView is the list of conversations, the last active first.
type sessionsView struct {
	List     []recent
	Source   string // only these; "": all
	Archived bool   // the archived ones among them
	Next     string // address of the page that follows; "": there is none
	Sources  []string
}

// sessionSources are those that the list can be narrowed to.
var sessionSources = []string{"web", "api", "cli", "notify"}

// sessions answers GET /sessions?source=&archived=1&cursor=.
func (s *site) sessions(r *http.Request) (page, error) {
	p := page{View: "sessions", Title: "Sessions", Mark: "sessions", Script: "talk"}
	if s.Sessions == nil {
		return p, off("The list of conversations")
	}
	q := r.URL.Query()
	v := sessionsView{Source: q.Get("source"), Archived: q.Get("archived") == "1", Sources: sessionSources}
	f := sessiondb.ListFilter{Limit: sessionsOnPage, IncludeArchived: v.Archived}
	if v.Source != "" {
		f.Sources = []string{v.Source}
	}
	var err error
	if f.BeforeActive, f.BeforeID, err = cursorOf(q.Get("cursor")); err != nil {
		return p, err
	}
	list, err := s.Sessions.Sessions(r.Context(), f)
	v.List = s.marked(list, "")
	if len(list) == f.Limit {
		last := list[len(list)-1]
		q.Set("cursor", fmt.Sprintf("%d.%s", last.LastActive.UnixMicro(), last.ID))
		v.Next = "/sessions?" + q.Encode()
	}
	p.Data = v
	return p, err
}

// cursorOf reads where a page of the list begins: behind a conversation, by its last activity and its id.
func cursorOf(text string) (time.Time, string, error) {
	if text == "" {
		return time.Time{}, "", nil
	}
	at, id, _ := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" {
		return time.Time{}, "", &problem.Error{Kind: problem.Invalid, Thing: "cursor", What: fmt.Sprintf("is not one of this list: %.60q", text), Field: "cursor"}
	}
	return time.UnixMicro(micros), id, nil
}

// With gives the list's address with one thing changed, from its first page.
func (v sessionsView) With(name, value string) string {
	q := url.Values{}
	if v.Source != "" {
		q.Set("source", v.Source)
	}
	if v.Archived {
		q.Set("archived", "1")
	}
	q.Set(name, value)
	if value == "" {
		q.Del(name)
	}
	return "/sessions?" + q.Encode()
}

// searchView is what a search found.
type searchView struct {
	Text string
	Hits []hit
	Sort string
	Full bool // there may be more
}

// Sorts are the orders in which hits can be shown.
func (searchView) Sorts() []string {
	return []string{string(sessiondb.Newest), string(sessiondb.Oldest), string(sessiondb.Relevance)}
}

type hit struct {
	sessiondb.Hit
	Called string // the conversation
	Parts  []excerpt
}

// excerpt is a piece of a hit's text; Hit says that it is what was searched for.
type excerpt struct {
	Text string
	Hit  bool
}

// search answers GET /search?q=&sort=.
func (s *site) search(r *http.Request) (page, error) {
	q := r.URL.Query()
	v := searchView{Text: strings.TrimSpace(q.Get("q")), Sort: cmp.Or(q.Get("sort"), string(sessiondb.Newest))}
	p := page{View: "search", Title: "Search", Mark: "sessions", Query: v.Text}
	if s.Sessions == nil {
		return p, off("The search")
	}
	if v.Text == "" {
		p.Data = v
		return p, nil
	}
	p.Title = "Search: " + v.Text
	hits, err := s.Sessions.Search(r.Context(), sessiondb.Query{Text: v.Text, Limit: hitsOnPage, Sort: sessiondb.Sort(v.Sort), Context: true})
	names := map[string]string{}
	for _, one := range hits {
		if _, known := names[one.SessionID]; !known {
			session, _ := s.Sessions.Session(r.Context(), one.SessionID) // one that was deleted meanwhile is called by its id
			session.ID = one.SessionID
			names[one.SessionID] = titleOf(session)
		}
		v.Hits = append(v.Hits, hit{one, names[one.SessionID], excerptsOf(one.Snippet)})
	}
	v.Full, p.Data = len(hits) == hitsOnPage, v
	return p, err
}

// Marks that the store puts around what was searched for.
const (
	hitBegins = ">>>"
	hitEnds   = "<<<"
)

func excerptsOf(snippet string) (parts []excerpt) {
	for snippet != "" {
		before, rest, there := strings.Cut(snippet, hitBegins)
		found, after, closed := strings.Cut(rest, hitEnds)
		if !there || !closed {
			return append(parts, excerpt{Text: snippet})
		}
		if before != "" {
			parts = append(parts, excerpt{Text: before})
		}
		parts, snippet = append(parts, excerpt{Text: found, Hit: true}), after
	}
	return parts
}
