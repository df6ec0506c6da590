package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
)

// loginMost is how large a login may be: a key and a path.
const loginMost = 16 << 10

// doorRoutes are those by which a page comes in and goes out. They need no key: the first shows it, and the second ends what there is.
func (s *server) doorRoutes(r chi.Router) {
	r.Post("/login", s.login)
	r.Post("/logout", s.logout)
	if s.Page != nil {
		r.Get("/login", s.page())
		r.Head("/login", s.page())
	}
}

// login answers POST /login, by a form or by JSON with the fields key and next: a key that is right is exchanged for a cookie. A form is sent on
// to next, or back to GET /login?problem=; JSON hears it.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	given, form, err := readLogin(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	caller, err := s.byKey(given.Key, r.RemoteAddr)
	if err == nil {
		err = s.admit(w, r, caller.Key)
	}
	switch {
	case err != nil && form && s.Page != nil:
		back := url.Values{"problem": {loginProblem(given, err)}, "next": {LocalPath(given.Next)}}
		redirect(w, "/login?"+back.Encode())
	case err != nil:
		s.fail(w, r, err)
	case form:
		redirect(w, LocalPath(given.Next))
	default:
		writeJSON(w, http.StatusOK, map[string]any{"ok": true, "key": caller.Key, "next": LocalPath(given.Next)})
	}
}

type loginRequest struct {
	Key  string `json:"key"`
	Next string `json:"next"`
}

func readLogin(r *http.Request) (given loginRequest, form bool, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, loginMost))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return given, false, err
	}
	if err != nil {
		return given, false, &refusal{status: http.StatusBadRequest, code: "body_unreadable", message: "the body did not come whole", cause: err}
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/json" {
		if json.Unmarshal(body, &given) != nil {
			err = errField("key", "is wanted in a JSON object")
		}
		given.Key = strings.TrimSpace(given.Key)
		return given, false, err
	}
	if kind != "application/x-www-form-urlencoded" {
		return given, false, &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", message: "send a form or JSON with the field key"}
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return given, true, errField("key", "is wanted in a form")
	}
	return loginRequest{Key: strings.TrimSpace(fields.Get("key")), Next: fields.Get("next")}, true, nil
}

// loginProblem is the word by which the page knows why a login failed.
func loginProblem(given loginRequest, err error) string {
	switch {
	case given.Key == "":
		return "missing"
	case asRefusal(err).status == http.StatusTooManyRequests:
		return "limited"
	}
	return "wrong"
}

// admit gives the browser a login of its own and ends the one that it had.
func (s *server) admit(w http.ResponseWriter, r *http.Request, key keys.Key) error {
	old, rest, had := s.Keys.ByCookie(cookies(r))
	token, err := s.Keys.Login(key)
	if err != nil {
		return err
	}
	if had {
		_ = s.Keys.Logout(old) // it would end by itself
	}
	setCookie(w, r, keys.CookieValue(token, rest))
	s.Log.Info("logged in", "key", key.Name)
	return nil
}

// logout answers POST /logout: the login is over, here and in the browser.
func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	caller, rest, had := s.Keys.ByCookie(cookies(r))
	if had {
		if !sameOrigin(r) {
			s.fail(w, r, &refusal{status: http.StatusForbidden, code: "same_origin_required", message: "only a page of this daemon may end its login"})
			return
		}
		if err := s.Keys.Logout(caller); err != nil {
			s.fail(w, r, err)
			return
		}
		s.Log.Info("logged out", "key", caller.Key.Name)
	}
	setCookie(w, r, keys.CookieValue("", rest))
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		redirect(w, "/login")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ok": true})
}

// setCookie sets what the browser keeps; an empty value removes it. No script reads it and no other site's request carries it.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{
		Name: keys.Cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		MaxAge: int(keys.LoginTime.Seconds()),
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// LocalPath keeps a path of ours and drops everything that a browser could take for another host.
func LocalPath(next string) string {
	u, err := url.Parse(next)
	odd := func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, odd) {
		return "/"
	}
	return next
}
