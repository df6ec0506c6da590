package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/route"
	"gatewayd/gateway/slash"
	"gatewayd/sessiondb"
)

// Headers that name the conversation. The alias is what clients of the program we are modelled on send.
const (
	headerSession = "X-Gatewayd-Session-Id"
	aliasSession  = "X-Hermes-Session-Id"
	headerKey     = "X-Gatewayd-Session-Key" // the routing key of a chat; the session that it leads to may change
	headerTurn    = "X-Gatewayd-Turn-Id"
	headerRow     = "X-Gatewayd-Last-Row"

	maxSessionID = 128
	maxBranches  = 64
)

// namedSession is the session that the request's header names, or nothing. An id that is not usable is refused and not mended: two
// mended ids could be one.
func namedSession(h http.Header) (string, error) {
	for _, name := range []string{headerSession, aliasSession} {
		id := h.Get(name)
		if id == "" {
			continue
		}
		if !usableSession(id) {
			return "", errField(name, "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
		}
		return id, nil
	}
	return "", nil
}

// place finds the conversation of a request: by its routing key, by the session that it names, or by how its body begins. Where
// the place is named, the body's history is left out.
func (s *server) place(r *http.Request, c *completion) (slash.Context, error) {
	at := slash.Context{Source: gateway.SourceAPI, Key: r.Header.Get(headerKey)}
	named, err := namedSession(r.Header)
	switch {
	case err != nil:
		return at, err
	case at.Key != "":
		c.History = nil
		at.Session, err = s.keyed(r.Context(), at.Key, c)
	case named != "":
		c.History = nil
		return s.successor(r.Context(), named)
	default:
		c.History = withoutCommands(c.History)
		at.Session, err = s.session(r.Context(), *c)
	}
	return at, err
}

// keyed is the session that a key leads to. A message makes one where there is none; a command does not.
func (s *server) keyed(ctx context.Context, key string, c *completion) (string, error) {
	routes := route.Resolver{Store: s.Sessions}
	if _, command, err := slash.Parse(c.Text); command || err != nil {
		session, _, err := routes.Look(ctx, key)
		return session.ID, err
	}
	n := sessiondb.NewSession{Key: key, Source: gateway.SourceAPI, Prompt: s.layered(c.System)}
	if s.Model != nil {
		n.Model = s.Model().Name
	}
	session, _, err := routes.Conversation(ctx, n)
	return session.ID, err
}

// successor is the session that a client's own name for one means now: the one of this id, until /new or /resume in it made the
// name lead to another. The key is what remembers that.
func (s *server) successor(ctx context.Context, named string) (slash.Context, error) {
	at := slash.Context{Session: named, Source: gateway.SourceAPI}
	key, err := route.Origin{Platform: gateway.SourceAPI, Kind: "dm", Chat: named}.Key(route.Rules{})
	if err != nil {
		return at, nil //nolint:nilerr // a name that can be no key leads nowhere else
	}
	at.Key = key
	session, there, err := route.Resolver{Store: s.Sessions}.Look(ctx, key)
	if there {
		at.Session = session.ID
	}
	return at, err
}

func usableSession(id string) bool {
	return id != "" && len(id) <= maxSessionID && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-") == ""
}

// derivedSession is the name of the conversation that begins like this. Chat programs send the whole conversation each time and no
// name, so its beginning is what stays the same.
func derivedSession(c completion) string {
	first := c.Text
	if i := slices.IndexFunc(c.History, isUser); i >= 0 {
		first = c.History[i].Content
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(c.System), c.System, first))
	return "api-" + hex.EncodeToString(sum[:12])
}

// session decides which conversation a request without a header continues: the first of the derived name and its branches whose stored
// user messages are those of the body, or a new one, which begins with the body's history. So a message that was edited or sent
// again in the chat program makes a branch, and what is stored never contradicts what the person sees.
func (s *server) session(ctx context.Context, c completion) (string, error) {
	base := derivedSession(c)
	told := userTexts(c.History)
	for branch := range maxBranches {
		id := base
		if branch > 0 {
			id += "-" + strconv.Itoa(branch)
		}
		rows, err := s.Sessions.Messages(ctx, id, sessiondb.MessageFilter{IncludeCompacted: true})
		if err != nil {
			return "", err
		}
		var stored []string
		for _, row := range rows {
			if row.Role == "user" {
				stored = append(stored, asTold(row.Content))
			}
		}
		if len(rows) == 0 || slices.Equal(stored, told) {
			return id, nil
		}
	}
	return base + "-" + strings.ToLower(rand.Text()), nil
}

func isUser(m provider.Message) bool { return m.Role == "user" }

func userTexts(history []provider.Message) []string {
	var texts []string
	for _, m := range history {
		if isUser(m) {
			texts = append(texts, m.Captioned().Content)
		}
	}
	return texts
}
