package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
)

// keyRoutes are the keys of this daemon. The text of a key is in one answer and nowhere else.
func (s *server) keyRoutes(r chi.Router) {
	to := s.behind(r)
	to.admin.Get("/api/keys", s.handle(s.listKeys))
	to.admin.Post("/api/keys", s.handle(s.addKey))
	to.admin.Delete("/api/keys/{key}", s.handle(s.removeKey))
	to.admin.Post("/api/keys/{key}/rotate", s.handle(s.rotateKey))
	to.read.Get("/api/whoami", s.handle(whoAmI))
}

// listKeys answers GET /api/keys.
func (s *server) listKeys(*http.Request) (answer, error) {
	return ok(map[string]any{"object": "list", "keys": s.Keys.List()})
}

// addKey answers POST /api/keys with the fields name, scopes and, when the key is to end by itself, expires_in in seconds.
func (s *server) addKey(r *http.Request) (answer, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var n keys.New
	var names []string
	var seconds int64
	if err := o.read(into("name", &n.Name), into("scopes", &names), into("expires_in", &seconds)); err != nil {
		return answer{}, err
	}
	if n.Scopes, err = keys.ParseScopes(names); err != nil {
		return answer{}, err
	}
	if most := int64(keys.ExpiresMost / time.Second); o.has("expires_in") && (seconds < 1 || seconds > most) {
		return answer{}, errField("expires_in", "must be 1 to %d seconds; without it the key does not end", most)
	}
	n.Expires = time.Duration(seconds) * time.Second
	key, text, err := s.Keys.Add(n)
	if err != nil {
		return answer{}, err
	}
	s.logKey(r, "key made", key)
	return answer{http.StatusCreated, map[string]any{"key": key, "text": text}}, nil
}

// removeKey answers DELETE /api/keys/{key}, by the name or the ID.
func (s *server) removeKey(r *http.Request) (answer, error) {
	key, err := s.Keys.Remove(chi.URLParam(r, "key"))
	if err != nil {
		return answer{}, err
	}
	s.logKey(r, "key removed", key)
	return ok(map[string]any{"ok": true, "key": key})
}

// rotateKey answers POST /api/keys/{key}/rotate: the old text is over.
func (s *server) rotateKey(r *http.Request) (answer, error) {
	key, text, err := s.Keys.Rotate(chi.URLParam(r, "key"))
	if err != nil {
		return answer{}, err
	}
	s.logKey(r, "key rotated", key)
	return ok(map[string]any{"key": key, "text": text})
}

func (s *server) logKey(r *http.Request, what string, key keys.Key) {
	by, _ := keys.Who(r.Context())
	s.Log.Info(what, "key", key.Name, "scopes", keys.Names(key.Scopes), "by", by.Key.Name)
}

// whoAmI answers GET /api/whoami: the key of the caller, and the door by which it came.
func whoAmI(r *http.Request) (answer, error) {
	caller, _ := keys.Who(r.Context())
	return ok(map[string]any{"key": caller.Key, "door": caller.Door})
}
