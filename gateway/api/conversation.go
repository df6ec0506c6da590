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

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// Headers that name the conversation. The alias is what clients of the program we are modelled on send.
const (
	headerSession = "X-Gatewayd-Session-Id"
	aliasSession  = "X-Hermes-Session-Id"
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
		if len(id) > maxSessionID || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-") != "" {
			return "", errField(name, "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
		}
		return id, nil
	}
	return "", nil
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
				stored = append(stored, row.Content)
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
			texts = append(texts, m.Content)
		}
	}
	return texts
}
