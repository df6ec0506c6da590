package tool

import (
	"maps"
	"path"
	"strings"
)

// standing is where a command begins: its directory, and the variables and functions that an earlier command of its conversation has
// left.
type standing struct {
	dir       string
	env       []string
	functions string
}

// placed is a tool whose commands do not all begin where the turn works.
type placed interface{ Stands(call Call) standing }

func standsAt(t Tool, call Call) standing {
	if p, ok := t.(placed); ok {
		return p.Stands(call)
	}
	return standing{dir: call.Dir}
}

// vars are the variables whose values are known when the command begins.
func (s standing) vars(self *Self) map[string]string {
	known := maps.Clone(self.vars())
	if known == nil {
		known = map[string]string{}
	}
	for _, word := range s.env {
		if name, value, ok := strings.Cut(word, "="); ok {
			known[name] = value
		}
	}
	delete(known, "IFS") // of a new shell it is what it always is
	known["0"], known["BASH"] = "bash", "/bin/bash"
	return known
}

// Stands says where a command of the terminal begins: where the one before it has left its conversation, or where it asks to be.
func (t *Terminal) Stands(call Call) standing {
	args, _ := t.parse(call)
	base := call.Dir
	if base == "" {
		base = t.opts.Dir
	}
	at := t.shells.look(call.Session, base)
	if at.env == nil {
		at.env = t.opts.Env
	}
	switch {
	case args.Workdir == "":
	case path.IsAbs(args.Workdir):
		at.dir = args.Workdir
	default:
		at.dir = path.Join(at.dir, args.Workdir)
	}
	return at
}

// look gives what enter would, and changes nothing.
func (s *shells) look(session, base string) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.bySession[session]
	if p == nil || p.base != base && p.running == 0 {
		return standing{dir: base}
	}
	return standing{dir: p.dir, env: p.env, functions: p.functions}
}
