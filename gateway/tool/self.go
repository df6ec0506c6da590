package tool

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatewayd/gateway/tool/sh"
	"gatewayd/internal/mutation"
)

// Self is the daemon, as a command could reach it. No command may end it, change its files, or answer for the person whom it asks:
// what counts is the effect, so pids, names, units and ports are compared with the daemon's own. Nil knows nothing.
type Self struct {
	PIDs    []int    // the daemon, and in a worker's process the worker
	Names   []string // what its processes are called: gatewayd
	Command string   // its command line
	Units   []string // the unit it runs under, where there is one
	Ports   []int    // where it listens
	Home    string   // full path of its home
	Free    []string // directories below the home that are the model's own: the workspace
	Root    bool     // it runs as root, and so do its commands

	Vars map[string]string // variables whose values commands see: HOME, GATEWAYD_HOME
}

func (s *Self) vars() map[string]string {
	if s == nil {
		return nil
	}
	return s.Vars
}

func (s *Self) root() bool { return s != nil && s.Root }

// owns reports a file of the daemon's home that is not the model's, nor in the workspace of a card.
func (s *Self) owns(name string) bool {
	if s == nil || s.Home == "" || name == "" {
		return false
	}
	name = filepath.Clean(name)
	if real, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
		name = filepath.Join(real, filepath.Base(name))
	}
	return isInside(name, s.Home) && !strings.Contains(name, "/workspaces/") && !slices.ContainsFunc(s.Free, func(free string) bool { return isInside(name, free) })
}

// holds reports a directory that the home is in, or is.
func (s *Self) holds(name string) bool {
	return s != nil && s.Home != "" && name != "" && isInside(s.Home, filepath.Clean(strings.TrimRight(name, "*")))
}

func isInside(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// harm says what a command would do to the daemon, or "".
func (s *Self) harm(acts []action) string {
	if s == nil || mutation.On("self-is-not-guarded") {
		return ""
	}
	for _, a := range acts {
		if a.remote {
			continue
		}
		switch {
		case s.ends(a, acts):
			return "end gatewayd itself, and with it this conversation"
		case s.changes(a):
			return "change gatewayd's own files"
		case s.decides(a):
			return "answer, in the user's place, what gatewayd asks the user"
		}
	}
	return ""
}

// ends reports an action that ends one of the daemon's processes or its unit.
func (s *Self) ends(a action, all []action) bool {
	switch {
	case a.is("kill"):
		return s.killed(a, all)
	case a.is("pkill", "killall", "killall5", "skill"):
		return a.is("killall5") || s.named(a)
	case a.is("fuser") && (a.short("k") || a.has("--kill")):
		return s.listens(a.texts())
	case a.is("systemctl", "service", "rc-service", "initctl", "launchctl", "loginctl"):
		return a.has("stop", "restart", "kill", "disable", "mask", "try-restart", "isolate", "terminate-user", "kill-user", "bootout", "unload", "remove") && s.unit(a)
	case a.is("gdb", "strace", "ltrace") && a.has("-p", "--pid"):
		return slices.ContainsFunc(a.texts(), s.isPID)
	case a.inline && strings.Contains(a.code, "kill"):
		return slices.ContainsFunc(digits.FindAllString(a.code, -1), s.isPID)
	}
	return false
}

var digits = regexp.MustCompile(`\d+`)

func (s *Self) isPID(text string) bool {
	n, err := strconv.Atoi(strings.TrimLeft(text, "-"))
	return err == nil && slices.Contains(s.PIDs, n)
}

// killed looks at each target of a kill: a number, a file that holds one, or what a search for processes would find.
func (s *Self) killed(a action, all []action) bool {
	signal := true // a first word with a dash is the signal, a later one is a group
	for _, w := range a.args {
		dash := strings.HasPrefix(w.Text, "-")
		if s.isPID(w.Text) && !(dash && signal) {
			return true
		}
		signal = signal && !dash
		if w.Open && s.found(all) {
			return true
		}
	}
	return a.fed && s.found(all)
}

// found reports that some part of the command looks the daemon up: by its name, its port, its unit, or a file that holds its pid.
func (s *Self) found(all []action) bool {
	processes := slices.ContainsFunc(all, func(a action) bool { return a.is("ps") })
	for _, a := range all {
		switch {
		case a.is("pgrep", "pidof"):
			if s.named(a) {
				return true
			}
		case a.is("lsof", "fuser", "ss", "netstat"):
			if s.listens(a.texts()) {
				return true
			}
		case a.is("systemctl"):
			if s.unit(a) {
				return true
			}
		case processes && a.is("grep", "egrep", "rg", "awk", "sed"):
			if slices.ContainsFunc(a.texts(), s.matchesName) {
				return true
			}
		case a.is("cat", "head", "tail"):
			if slices.ContainsFunc(a.args, func(w sh.Word) bool { return s.isPIDFile(absolute(a.dir, w.Text)) }) {
				return true
			}
		}
		if slices.ContainsFunc(a.command.Redirects, func(r sh.Redirect) bool { return !r.Writes() && s.isPIDFile(absolute(a.dir, r.Target.Text)) }) {
			return true
		}
	}
	return false
}

// isPIDFile reads a small file: it is a target of a kill.
func (s *Self) isPIDFile(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 4096 {
		return false
	}
	text, err := os.ReadFile(name)
	return err == nil && slices.ContainsFunc(digits.FindAllString(string(text), -1), s.isPID)
}

// named reports that a search by name or by pattern finds the daemon.
func (s *Self) named(a action) bool {
	full := a.short("f") || a.has("--full")
	for i, w := range a.args {
		if strings.HasPrefix(w.Text, "-") {
			continue
		}
		if i > 0 && slices.Contains([]string{"-s", "--signal", "-P", "-g", "-t", "-n"}, a.args[i-1].Text) {
			continue
		}
		if s.matchesName(w.Text) || full && s.matches(w.Text, s.Command) {
			return true
		}
	}
	return false
}

func (s *Self) matchesName(pattern string) bool {
	return slices.ContainsFunc(s.Names, func(name string) bool { return s.matches(pattern, name) })
}

// matches takes a pattern as pgrep and grep do, and a text that is none as it stands.
func (s *Self) matches(pattern, text string) bool {
	if text == "" || pattern == "" {
		return false
	}
	if re, err := regexp.Compile(pattern); err == nil && len(pattern) < 200 {
		return re.MatchString(text)
	}
	return strings.Contains(text, pattern)
}

func (s *Self) listens(args []string) bool {
	for _, port := range s.Ports {
		n := regexp.MustCompile(`(^|\D)` + strconv.Itoa(port) + `(\D|$)`)
		if slices.ContainsFunc(args, n.MatchString) {
			return true
		}
	}
	return false
}

func (s *Self) unit(a action) bool {
	names := append(slices.Clone(s.Names), s.Units...)
	return slices.ContainsFunc(a.texts(), func(arg string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			bare := strings.TrimSuffix(name, ".service")
			return arg == name || strings.TrimSuffix(arg, ".service") == bare || strings.HasPrefix(arg, bare+"@") || strings.ContainsAny(arg, "*?[") && like(arg, bare)
		})
	})
}

// changes reports a write to one of the daemon's own files, or the end of the directory they are in.
func (s *Self) changes(a action) bool {
	names := written(a)
	if a.is(databases...) && !a.has("-readonly") {
		for _, arg := range a.operands() {
			names = append(names, absolute(a.dir, arg))
		}
	}
	if slices.ContainsFunc(names, s.owns) {
		return true
	}
	gone := a.is("rm", "mv", "shred") || a.is("chmod", "chown", "chgrp") || a.is("find") && deletesAll(a.texts())
	if !gone {
		return false
	}
	whole := a.is("mv", "find") || a.short("rR") || a.has("--recursive")
	return whole && slices.ContainsFunc(a.args, func(w sh.Word) bool { return s.holds(absolute(a.dir, w.Text)) })
}

// decides reports a command that answers an approval: by our own verb, or by our API with our key.
func (s *Self) decides(a action) bool {
	args := a.texts()
	if slices.Contains(s.Names, a.name) || a.open {
		i := slices.Index(args, "approvals")
		return i >= 0 && slices.ContainsFunc(args[i:], func(arg string) bool { return arg == "approve" || arg == "revoke" || arg == "deny" })
	}
	asked := strings.Join(args, " ") + " " + a.code
	if plain, err := url.PathUnescape(asked); err == nil {
		asked += " " + plain
	}
	if strings.Contains(asked, "/api/approvals") {
		return true
	}
	return s.Home != "" && (slices.ContainsFunc(a.args, func(w sh.Word) bool { return s.isDoor(a, w) }) ||
		slices.ContainsFunc(a.command.Redirects, func(r sh.Redirect) bool { return s.isDoor(a, r.Target) }))
}

// isDoor reports the key of our API, or its socket, also as one of those that a pattern stands for.
func (s *Self) isDoor(a action, w sh.Word) bool {
	name := absolute(a.dir, w.Text)
	return slices.ContainsFunc([]string{"api.key", "api.sock"}, func(file string) bool {
		door := filepath.Join(s.Home, file)
		ok, err := filepath.Match(name, door)
		return name == door || w.Glob && ok && err == nil
	})
}
