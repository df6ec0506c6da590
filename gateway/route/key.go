// Package route is the address of a conversation: where a message came from, as a key that no other place has. A key leads to
// one conversation at a time; which one that is, the store knows, and everybody asks it by Resolver. Keys survive a new
// beginning, the ids of sessions do not.
package route

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Origin is where a message came from. Platform and Kind are needed; what a platform does not know stays empty.
type Origin struct {
	Profile  string // whose gateway it is; empty: the default one's
	Platform string // telegram, slack, api …
	Kind     string // dm, group, channel
	Scope    string // a workspace or a server, where ids are not unique without
	Chat     string
	Thread   string
	User     string
}

// Rules say who shares a conversation. The zero value: in a group each person has their own, a thread is shared.
type Rules struct {
	SharedGroups  bool // all people of a group or channel are in one conversation
	PersonThreads bool // each person of a thread has their own
}

// Bounds of a key.
const (
	maxKey  = 256 // bytes, what the store takes
	maxName = 64  // of a profile, a platform and a kind
)

// Key is the address of the conversation that a message from here belongs to. Parts stand at fixed places, so that an empty one
// never lets another move up and be taken for it, and the separator inside an id is escaped. A name or an id that is not usable
// is refused and not mended: two mended ids could be one.
func (o Origin) Key(rules Rules) (string, error) {
	for _, name := range []struct{ field, value string }{{"profile", cmp.Or(o.Profile, "main")}, {"platform", o.Platform}, {"chat_type", o.Kind}} {
		if !plain(name.value) {
			return "", refuse(name.field, name.value, "must be 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or a digit")
		}
	}
	parts := []string{"agent", o.profile(), o.Platform, o.Kind, "", "", "", ""}
	for i, id := range []struct{ field, value string }{{"scope", o.Scope}, {"chat", o.Chat}, {"thread", o.Thread}, {"user", o.person(rules)}} {
		if why := unsafe(id.value); why != "" {
			return "", refuse(id.field, id.value, why)
		}
		parts[4+i] = escape(id.value)
	}
	key := strings.TrimRight(strings.Join(parts, ":"), ":")
	if len(key) > maxKey {
		return "", refuse("key", key, fmt.Sprintf("is longer than %d bytes", maxKey))
	}
	return key, nil
}

// profile keeps the default one apart from one that is called as it is.
func (o Origin) profile() string {
	switch o.Profile {
	case "":
		return "main"
	case "main":
		return "main~"
	}
	return o.Profile
}

// person is the user as far as the conversation is theirs.
func (o Origin) person(rules Rules) string {
	direct := o.Kind == "dm"
	switch {
	case mutation.On("people-of-a-group-meet") && !direct:
		return ""
	case o.Thread != "" && !direct && !rules.PersonThreads:
		return ""
	case o.Thread == "" && !direct && rules.SharedGroups:
		return ""
	}
	return o.User
}

// plain accepts what profiles, platforms and kinds are called.
func plain(name string) bool {
	const first = "abcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && len(name) <= maxName && strings.Contains(first, name[:1]) && strings.Trim(name, first+"_-") == ""
}

// unsafe says why an id must not become part of a name that may end up in a path. The empty id is fine.
func unsafe(id string) string {
	switch {
	case !utf8.ValidString(id):
		return "is not UTF-8"
	case strings.ContainsAny(id, `/\`):
		return "holds a slash"
	case strings.Contains(id, ".."):
		return "holds two dots in a row"
	case strings.IndexFunc(id, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
	}) >= 0:
		return "holds a control character"
	case id != strings.TrimSpace(id):
		return "begins or ends with a blank"
	}
	return ""
}

var escape = strings.NewReplacer("%", "%25", ":", "%3A").Replace

var unescape = strings.NewReplacer("%25", "%", "%3A", ":").Replace

// Parse reads a key back. Only what Key gives is a key: any other spelling of the same place would be another conversation.
func Parse(key string) (Origin, error) {
	parts := strings.Split(key, ":")
	if len(parts) < 4 || len(parts) > 8 || parts[0] != "agent" {
		return Origin{}, refuse("key", key, "must be agent:PROFILE:PLATFORM:CHAT_TYPE[:SCOPE][:CHAT][:THREAD][:USER]")
	}
	for len(parts) < 8 {
		parts = append(parts, "")
	}
	o := Origin{
		Profile: parts[1], Platform: parts[2], Kind: parts[3], Scope: unescape(parts[4]), Chat: unescape(parts[5]), Thread: unescape(parts[6]), User: unescape(parts[7]),
	}
	switch o.Profile {
	case "main":
		o.Profile = ""
	case "main~":
		o.Profile = "main"
	}
	again, err := o.Key(Rules{PersonThreads: true})
	if err != nil {
		return Origin{}, err
	}
	if again != key {
		return Origin{}, refuse("key", key, "is not written as this daemon writes it: "+again)
	}
	return o, nil
}

func refuse(field, value, why string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: field, What: fmt.Sprintf("%s: %.200q", why, value), Fate: "nothing was made", Field: field}
}

// SamePerson reports that two places are of one person, or of one chat that has no person of its own: what was said in the one
// may be shown in the other.
func (o Origin) SamePerson(p Origin) bool {
	if o.Profile != p.Profile || o.Platform != p.Platform || o.Scope != p.Scope {
		return false
	}
	if o.User != "" || p.User != "" {
		return o.User == p.User
	}
	return o.Kind == p.Kind && o.Chat == p.Chat
}
