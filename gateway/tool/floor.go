package tool

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"gatewayd/gateway/tool/sh"
)

// floor refuses what nobody may do through a model, whatever the policy says and whoever has approved it: the few catastrophes, and
// what would end or take over the daemon itself.
func floor(t Tool, call Call) string {
	if c, ok := t.(commander); ok {
		if what := fatal(c.Command(call), call.Policy.Self, standsAt(t, call)); what != "" {
			return "the command would " + what + ". It is refused under every setting and was not run"
		}
	}
	if w, ok := t.(writer); ok && call.Policy.Self != nil {
		for _, name := range w.Writes(call) {
			if call.Policy.Self.owns(name) {
				return name + " is gatewayd's own file. It is written by no tool under any setting; nothing was changed"
			}
		}
	}
	return ""
}

// Catastrophe says what a shell command would destroy beyond repair, or "". It is a floor and no fence: it knows a handful of
// commands that no task needs, in their usual disguises (quotes, $IFS, full paths, wide letters, sudo, sh -c).
func Catastrophe(command string) string { return fatal(command, nil, standing{}) }

func fatal(command string, self *Self, at standing) string {
	r := read(command, at, self)
	if r.bomb || forkBomb.MatchString(strings.Join(strings.Fields(normalise(command)), "")) {
		return "start processes without end (a fork bomb)"
	}
	acts := r.out
	for _, a := range acts {
		if a.remote {
			continue // somebody else's file system
		}
		if what := a.catastrophe(self); what != "" {
			return what
		}
	}
	return self.harm(acts)
}

var (
	forkBomb = regexp.MustCompile(`([\w:.]+)\(\)\{([\w:.]+)\|([\w:.]+)&\};?([\w:.]+)`)
	device   = regexp.MustCompile(`^/dev/(sd[a-z]|nvme\d|vd[a-z]|xvd[a-z]|hd[a-z]|mmcblk\d|r?disk\d|disk/|block/|md\d|md/|dm-\d|nbd\d|zd\d|rbd\d|pmem\d|bcache\d|dasd[a-z]|mapper/|root$|mem$|kmem$|port$)`)
)

// isDisk reports a disk, or the memory, by any of the names that a path has.
func (a action) isDisk(name string) bool { return device.MatchString(absolute(a.dir, name)) }

// catastrophe judges one program.
func (a action) catastrophe(self *Self) string {
	if !a.is("touch", "chmod", "chown", "chgrp", "setfacl", "rm", "unlink", "ln") && slices.ContainsFunc(written(a), device.MatchString) {
		return "overwrite a whole disk"
	}
	args := a.texts()
	recursive := a.recursive()
	switch {
	case a.is("rm") && recursive && a.onRoot():
		return "delete the whole file system"
	case a.is("find") && a.onRoot() && deletesAll(args):
		return "delete the whole file system"
	case a.is("chmod", "chown", "chgrp") && recursive && a.onRoot():
		return "change the owner or mode of every file"
	case a.is("mkfs", "mke2fs", "mkdosfs", "mkntfs", "wipefs", "blkdiscard", "mkswap") || strings.HasPrefix(a.name, "mkfs."):
		return a.onDevice("erase a file system")
	case a.is("shred", "badblocks") && (a.is("shred") || a.short("w")):
		return a.onDevice("overwrite a whole disk")
	case a.is("kill") && killsAll(args):
		return "kill every process of this user, gatewayd included"
	case a.script && fetched(a.from) && (a.root || self.root()):
		return "run a program from the network as root, unseen"
	}
	return ""
}

// deletesAll knows find without any condition.
func deletesAll(args []string) bool {
	if !slices.Contains(args, "-delete") && !(slices.Contains(args, "rm") && slices.Contains(args, "-exec")) {
		return false
	}
	for i, arg := range args {
		narrows := slices.Contains([]string{"-name", "-iname", "-path", "-regex", "-size", "-mtime", "-mmin", "-newer", "-empty", "-user", "-perm", "-inum"}, arg)
		negated := i > 0 && (args[i-1] == "!" || args[i-1] == "-not")
		if narrows && !negated && (i+1 == len(args) || strings.Trim(args[i+1], "*") != "") {
			return false
		}
	}
	return true
}

func killsAll(args []string) bool {
	targets := false
	for i, arg := range args {
		switch {
		case arg == "-s" || arg == "-n" || arg == "-q":
			targets = true
		case i > 0 && arg == "-1":
			return true // kill -1 PID is a SIGHUP, kill -9 -1 is everybody
		case arg == "--":
			targets = true
		}
	}
	return targets && slices.Contains(args, "-1")
}

// onDevice looks for a disk among the arguments that are written to.
func (a action) onDevice(what string) string {
	if slices.ContainsFunc(a.texts(), a.isDisk) {
		return what
	}
	return ""
}

var rootOfProcess = regexp.MustCompile(`^/+proc/[^/]+/(task/[^/]+/)?root(/|$)`)

// isRoot knows the root directory by its many names: /, //, /*, /., /.., /proc/self/root and combinations of them; and a pattern that
// has most of what is in it.
func isRoot(arg string) bool {
	arg = rootOfProcess.ReplaceAllString(arg, "/")
	if !strings.HasPrefix(arg, "/") {
		return false
	}
	if path.Clean(strings.TrimRight(arg, "*")) == "/" {
		return true
	}
	first, rest, _ := strings.Cut(path.Clean(arg)[1:], "/")
	if strings.Trim(rest, "*?/") != "" {
		return false
	}
	hit := 0
	for _, dir := range []string{"bin", "etc", "usr", "var", "lib", "home", "root"} {
		if ok, err := path.Match(strings.ReplaceAll(first, "[!", "[^"), dir); ok && err == nil {
			hit++
		}
	}
	return hit > 1
}

func (a action) onRoot() bool {
	return slices.ContainsFunc(a.args, func(w sh.Word) bool {
		return isRoot(w.Text) || w.Unset && isRoot(openPart.ReplaceAllString(w.Text, "")) || a.dir == "/" && (w.Text == "*" || w.Text == "." || w.Text == "./*" || w.Text == "./") && (w.Glob || !a.is("find"))
	})
}

// fetchers bring something from the network.
var fetchers = []string{"curl", "wget", "fetch", "http", "https", "aria2c", "nc", "ncat", "netcat", "socat", "ftp", "lynx", "scp"}

func fetched(from []sh.Command) bool {
	return slices.ContainsFunc(from, func(c sh.Command) bool {
		return slices.ContainsFunc(c.Words, func(w sh.Word) bool { return slices.Contains(fetchers, path.Base(w.Text)) })
	})
}

// normalise undoes what hides a word from a reader of words: wide forms of letters, blanks that look like others, and marks without
// a width. A shell would run none of them; a person would take them for what they seem.
func normalise(command string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0xFF01 && r <= 0xFF5E: // wide forms of ASCII
			return r - 0xFEE0
		case r == 0x00A0 || r == 0x3000 || r >= 0x2000 && r <= 0x200A || r == 0x202F || r == 0x205F:
			return ' '
		case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x2069, r == 0xFEFF, r == 0x00AD:
			return -1
		}
		return r
	}, command)
}

// What rules ask of an action.

func (a action) is(names ...string) bool {
	if slices.Contains(names, a.name) {
		return true
	}
	if !strings.ContainsAny(a.name, "*?[") {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool { // /b?n/r? is a name, too
		ok, err := path.Match(strings.ReplaceAll(a.name, "[!", "[^"), name)
		return ok && err == nil
	})
}

func (a action) texts() []string {
	out := make([]string, 0, len(a.args))
	for _, w := range a.args {
		out = append(out, w.Text)
	}
	return out
}

// has reports one of the words among the arguments; --force=x counts as --force.
func (a action) has(words ...string) bool {
	return slices.ContainsFunc(a.args, func(w sh.Word) bool {
		name, _, _ := strings.Cut(w.Text, "=")
		return slices.Contains(words, w.Text) || strings.HasPrefix(w.Text, "--") && slices.Contains(words, name)
	})
}

// short reports one of the letters among the short options: -rf, -xvf.
func (a action) short(letters string) bool {
	return slices.ContainsFunc(a.args, func(w sh.Word) bool {
		return len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' && strings.ContainsAny(w.Text, letters)
	})
}

// recursive reports -r, and --recursive however it is shortened.
func (a action) recursive() bool {
	return a.short("rR") || slices.ContainsFunc(a.args, func(w sh.Word) bool {
		return len(w.Text) > 2 && strings.HasPrefix("--recursive", w.Text)
	})
}

// valued gives the words behind these options, and those that stand in the same word.
func (a action) valued(options ...string) (words []sh.Word) {
	for i, w := range a.args {
		name, value, joined := strings.Cut(w.Text, "=")
		switch {
		case !slices.Contains(options, name):
		case joined:
			words = append(words, sh.Word{Text: value})
		case i+1 < len(a.args):
			words = append(words, a.args[i+1])
		}
	}
	return words
}

// text is the program with its words, for people.
func (a action) text() string {
	return strings.TrimSpace(strings.Join(append([]string{a.name}, a.texts()...), " "))
}
