package tool

// Policy says what a call may do. It travels with the call and is never ambient. The zero Policy may do nothing.
type Policy struct {
	Context  string   // where the call comes from: api, cli, web, worker, notify
	Terminal Mode     // tools.terminal
	Files    Mode     // tools.files: writing and patching them
	Allow    []string // tools.allow: what nobody is asked about; see Policy.allows
	Approver Approver // asks a person; nil: nobody can be asked, so what would be asked is refused
	Self     *Self    // the daemon itself, which no call may end or change; nil: it is not known
}

// Mode is a rule for a kind of effect. Everything but Ask, AskAll and Allow denies.
type Mode string

const (
	Deny   Mode = "deny"
	Ask    Mode = "ask"     // what is harmless runs, what is dangerous is asked about
	AskAll Mode = "ask-all" // everything is asked about
	Allow  Mode = "allow"   // nobody is asked; the floor holds all the same
)

// contexts are the places a call can come from, and whether a person can be asked there. Another one is a mistake in the wiring, and
// may do nothing at all: a headless caller that is taken for a trusted one runs commands nobody asked for.
var contexts = map[string]struct{ attended bool }{
	"api": {true}, "cli": {true}, "web": {true},
	"worker": {}, "notify": {},
}

// servers is the rule for tools of MCP servers, which somebody has named in the configuration already. Who lets commands run unasked
// has let everything run that a command can do.
func (p Policy) servers() Mode {
	switch {
	case p.Context == "notify":
		return Deny
	case p.Terminal == Allow || p.Terminal == AskAll:
		return p.Terminal
	}
	return Ask
}
