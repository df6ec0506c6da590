package web

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatewayd/gateway/keys"
	"gatewayd/kanban"
)

//go:embed templates
var templateFiles embed.FS

// page is one answer: which template shows what.
type page struct {
	View   string      // templates/VIEW.html
	Title  string      // of the window
	Mark   string      // the entry of the navigation that is lit: boards, chat, sessions, status
	Board  kanban.Slug // the board that it is about; "" = none
	Script string      // static/SCRIPT.js, besides page.js; "" = none
	Events string      // the stream of server-sent events on which the parts are fetched anew; "" = none
	Query  string      // what stands in the search field
	Status int         // 0 = 200
	Data   any

	Wrong   []string // the checks that are not ok
	Login   string   // the name of the key with which a person is logged in; "" = they came otherwise
	Me      string   // the name under which what they write is signed: their key's
	scopes  []keys.Scope
	Version string
	Now     time.Time // one reading of the clock for every age on the page
}

// May reports whether who looks may do what needs a scope. The page offers no more than that, and the API refuses it all the same.
func (p page) May(scope keys.Scope) bool {
	return slices.ContainsFunc(p.scopes, func(has keys.Scope) bool { return has.Includes(scope) })
}

// readViews parses each page with the frame around it, so that pages may use the same names for their blocks.
func (s *site) readViews() map[string]*template.Template {
	base := template.Must(template.New("base.html").Funcs(s.words()).ParseFS(templateFiles, "templates/base.html", "templates/shared.html"))
	views := map[string]*template.Template{}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		if name != "base" && name != "shared" {
			views[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, file))
		}
	}
	return views
}

// words are what templates may call.
func (s *site) words() template.FuncMap {
	return template.FuncMap{
		"static": s.files.url, "age": age, "moment": moment, "iso": iso, "plural": plural, "span": span, "bytes": bytesWord, "dict": dict, "markdown": markdown,
		"word": statusWord, "clip": titled, "hint": statusHint, "first": firstUpper,
	}
}

// show turns a function of a request into a page, or into the part of it that is asked for.
func (s *site) show(f func(*http.Request) (page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := f(r)
		if err != nil {
			p = s.errorPage(r, p, err)
		}
		s.render(w, r, p)
	}
}

const fragmentHeader = "Gatewayd-Fragment"

// render writes nothing before the whole of it is made: a template that fails halfway must not look like a short board.
func (s *site) render(w http.ResponseWriter, r *http.Request, p page) {
	p.Version, p.Now = s.Version, time.Now()
	if who, known := keys.Who(r.Context()); known {
		p.Me, p.scopes = who.Key.Name, who.Key.Scopes
		if who.Door == keys.DoorCookie {
			p.Login = who.Key.Name
		}
	}
	view, block := s.views[p.View], "base.html"
	part := r.Header.Get(fragmentHeader)
	if part == "" || part == "badge" {
		p.Wrong = s.troubles(r.Context())
	}
	switch {
	case part != "" && p.View == "trouble": // the part is what is wrong
		block = "part-trouble"
	case part != "":
		if block = "part-" + part; view.Lookup(block) == nil {
			http.Error(w, "there is no part "+strconv.Quote(part)+" in this page", http.StatusNotFound)
			return
		}
	}
	var out bytes.Buffer
	if err := view.ExecuteTemplate(&out, block, p); err != nil {
		s.Log.Error("page cannot be shown", "path", r.URL.Path, "error", err)
		http.Error(w, "gatewayd could not make this page; the daemon's log has the details", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(out.Len()))
	h.Add("Vary", fragmentHeader)
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_, _ = w.Write(out.Bytes())
}
