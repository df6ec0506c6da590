package tool

import (
	"regexp"
	"slices"
	"strings"

	"gatewayd/gateway/tool/sh"
)

// wrapper is a program that runs the program behind it.
type wrapper struct {
	valued  []string // options that take the next word
	skip    int      // words of its own before the program
	texts   []string // options whose word is a shell's text
	root    bool     // it runs the program as root, or as somebody else
	fed     bool     // it adds arguments
	remote  bool     // it runs the program elsewhere
	keep    bool     // it is worth a look itself
	sub     []string // it wraps only behind one of these words
	words   bool     // its words together are a shell's text
	setters bool     // NAME=VALUE words stand before the program
}

// wrapperOf gives the wrapper that an action is.
func wrapperOf(a action) (wrapper, bool) {
	name := a.name
	switch {
	case name == "command" && len(a.args) > 0 && (a.args[0].Text == "-v" || a.args[0].Text == "-V"):
		return wrapper{}, false // it only looks
	case strings.HasPrefix(name, "ld-linux"):
		name = "ld.so"
	}
	w, ok := wrappers[name]
	return w, ok
}

var wrappers = map[string]wrapper{
	"sudo":            {valued: []string{"-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-D", "-R", "-U", "--user", "--group"}, root: true, keep: true, setters: true},
	"doas":            {valued: []string{"-u", "-C"}, root: true, keep: true},
	"pkexec":          {valued: []string{"--user"}, root: true, keep: true},
	"su":              {valued: []string{"-s", "-g", "-G", "-w"}, texts: []string{"-c", "--command"}, root: true, keep: true, skip: 9},
	"runuser":         {valued: []string{"-u", "-g", "-G", "-s"}, texts: []string{"-c", "--command"}, root: true, keep: true},
	"env":             {valued: []string{"-u", "-C", "-a", "--unset", "--chdir", "--argv0"}, texts: []string{"-S", "--split-string"}, setters: true},
	"nohup":           {},
	"exec":            {valued: []string{"-a"}},
	"command":         {},
	"builtin":         {},
	"time":            {valued: []string{"-f", "-o"}},
	"nice":            {valued: []string{"-n", "--adjustment"}},
	"ionice":          {valued: []string{"-c", "-n", "-p"}},
	"setsid":          {},
	"stdbuf":          {valued: []string{"-i", "-o", "-e"}},
	"timeout":         {valued: []string{"-s", "-k", "--signal", "--kill-after"}, skip: 1},
	"chroot":          {skip: 1, remote: true},
	"flock":           {valued: []string{"-w", "-E"}, texts: []string{"-c", "--command"}, skip: 1},
	"taskset":         {valued: []string{"-p"}, skip: 1},
	"chrt":            {skip: 1},
	"strace":          {valued: []string{"-o", "-e", "-p", "-s"}},
	"watch":           {valued: []string{"-n", "--interval"}, words: true},
	"xargs":           {valued: []string{"-I", "-n", "-P", "-L", "-d", "-E", "-s", "-a"}, fed: true},
	"parallel":        {valued: []string{"-j", "--jobs"}, fed: true, words: true},
	"busybox":         {},
	"toybox":          {},
	"unbuffer":        {},
	"systemd-run":     {valued: []string{"-p", "-u", "--unit", "--property", "-E"}, keep: true},
	"systemd-inhibit": {},
	"ld.so":           {valued: []string{"--library-path", "--preload", "--argv0", "--audit"}},
	"unshare":         {valued: []string{"-S", "-G", "-R", "-w"}, root: true},
	"nsenter":         {valued: []string{"-t", "--target", "-S", "-G"}, root: true},
	"setpriv":         {}, "prlimit": {}, "fakeroot": {}, "valgrind": {}, "catchsegv": {}, "dbus-run-session": {}, "firejail": {}, "xvfb-run": {},
	"numactl": {valued: []string{"-N", "-m", "-C", "--cpunodebind", "--membind", "--physcpubind"}},
	"ltrace":  {valued: []string{"-o", "-e", "-p", "-s"}},
	"perf":    {sub: []string{"stat", "record", "trace"}, valued: []string{"-e", "-o", "-p"}},
	"linux32": {}, "linux64": {},
	"setarch": {skip: 1},
	"capsh":   {texts: []string{"-c"}, skip: 9, keep: true},
	"mapfile": {texts: []string{"-C"}, skip: 99}, "readarray": {texts: []string{"-C"}, skip: 99}, "compgen": {texts: []string{"-C"}, skip: 99},
	"tmux":    {sub: []string{"new", "new-session", "neww", "new-window", "split-window", "splitw", "run", "run-shell", "respawn-pane"}, valued: []string{"-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F"}, words: true},
	"screen":  {valued: []string{"-S", "-t", "-c", "-h", "-s", "-T"}},
	"script":  {texts: []string{"-c", "--command"}, skip: 9},
	"docker":  {valued: containerOptions, skip: 1, remote: true, keep: true, sub: []string{"exec", "run"}},
	"podman":  {valued: containerOptions, skip: 1, remote: true, keep: true, sub: []string{"exec", "run"}},
	"kubectl": {valued: []string{"-n", "-c", "--namespace", "--container", "--context"}, skip: 1, remote: true, keep: true, sub: []string{"exec"}},
	"ssh":     {valued: []string{"-p", "-i", "-l", "-o", "-L", "-R", "-D", "-F", "-J", "-b", "-c", "-E", "-e", "-m", "-Q", "-S", "-W", "-w"}, skip: 1, remote: true, words: true},
}

var containerOptions = []string{
	"-e", "--env", "-v", "--volume", "-w", "--workdir", "-u", "--user", "--name", "-p", "--publish", "--network", "--entrypoint", "-m", "--memory", "--mount",
	"-l", "--label", "-h", "--hostname", "--env-file", "--platform", "--cpus",
}

// text gives the shell's text that a wrapper is handed, if it is.
func (w wrapper) text(args []sh.Word) (string, bool) {
	for i, arg := range args {
		value, ok := w.joined(arg.Text)
		switch {
		case !ok:
		case value != "":
			return value, true
		case i+1 < len(args):
			words := args[i+1 : i+2]
			if w.setters { // env -S: what is behind it are further words of the same command
				words = args[i+1:]
			}
			return strings.Join((action{args: words}).texts(), " "), true
		}
	}
	if !w.words {
		return "", false
	}
	inner, _ := w.inner(args)
	words := make([]string, 0, len(inner))
	for _, word := range inner {
		if word.Text != ":::" {
			words = append(words, word.Text)
		}
	}
	return strings.Join(words, " "), len(words) > 0
}

// joined reports an option that takes a shell's text, with what of it stands in the same word: -c, -c'TEXT', -qc, --command=TEXT.
func (w wrapper) joined(arg string) (value string, ok bool) {
	for _, option := range w.texts {
		if name, value, long := strings.Cut(arg, "="); long && name == option {
			return value, true
		}
		if arg == option {
			return "", true
		}
		if len(option) == 2 && len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			if i := strings.IndexByte(arg, option[1]); i > 0 && strings.Trim(arg[1:i], "abcdefghijklmnopqrstuvwxyz0") == "" {
				return arg[i+1:], true
			}
		}
	}
	return "", false
}

// inner gives the program behind a wrapper, with its words; none when there is none. doubt says that the first of them may be the value
// of an option of the wrapper.
func (w wrapper) inner(args []sh.Word) (inner []sh.Word, doubt bool) {
	if len(w.sub) > 0 {
		i := slices.IndexFunc(args, func(arg sh.Word) bool { return slices.Contains(w.sub, arg.Text) })
		if i < 0 || i > 3 {
			return nil, false
		}
		args = args[i+1:]
	}
	args, doubt = w.options(args)
	for range w.skip {
		if len(args) == 0 {
			return nil, false
		}
		args = args[1:]
		if len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
	}
	for len(args) > 0 && (isNumber(args[0].Text) || w.setters && assigns(args[0].Text)) {
		args = args[1:]
	}
	return args, doubt
}

// options passes a wrapper's own options.
func (w wrapper) options(args []sh.Word) (rest []sh.Word, doubt bool) {
	for len(args) > 0 {
		text := args[0].Text
		switch {
		case text == "--":
			return args[1:], false
		case (slices.Contains(w.valued, text) || slices.Contains(w.texts, text)) && len(args) > 1:
			args, doubt = args[2:], false
		case w.setters && assigns(text):
			args, doubt = args[1:], false
		case strings.HasPrefix(text, "-"):
			args, doubt = args[1:], !strings.Contains(text, "=")
		default:
			return args, doubt
		}
	}
	return nil, false
}

func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isNumber knows durations too: timeout's argument, or an option's that was not known.
func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789.smhd") == "" && strings.ContainsAny(word, "0123456789")
}

// interpreters run text that no rule can read, behind one of their options.
var interpreters = map[string][]string{
	"python": {"-c"}, "perl": {"-e", "-E"}, "ruby": {"-e"}, "node": {"-e", "-p", "--eval", "--print", "-pe"}, "nodejs": {"-e", "-p", "--eval", "--print"},
	"bun": {"-e", "--eval"}, "deno": {"eval"}, "php": {"-r"}, "lua": {"-e"}, "Rscript": {"-e"}, "julia": {"-e"}, "osascript": {"-e"},
	"pwsh": {"-c", "-Command", "-command", "-EncodedCommand"}, "tclsh": {}, "pypy": {"-c"}, "ipython": {"-c"},
}

// awkRuns and sedRuns know scripts that run commands.
var (
	awkRuns = regexp.MustCompile(`system\s*\(|\|\s*getline|\|\s*"|\|&`)
	sedRuns = regexp.MustCompile(`(^|[;{\n])\s*(\d+|\$|/[^/]*/)?\s*e(\s|$)`)
)

// interpret marks an interpreter that is given its program in the text, or by its standard input.
func interpret(a *action) {
	name := strings.TrimRight(a.name, "0123456789.")
	flags, ok := interpreters[name]
	if !ok {
		a.inline = (name == "awk" || name == "gawk" || name == "mawk") && slices.ContainsFunc(a.args, func(w sh.Word) bool {
			return awkRuns.MatchString(w.Text)
		})
		if name == "sed" {
			a.inline = slices.ContainsFunc(a.args, func(w sh.Word) bool { return sedCommand(w.Text) })
		}
		if a.inline {
			a.code = a.text()
		}
		return
	}
	for i, w := range a.args {
		for _, flag := range flags {
			if w.Text == flag || clustered(w.Text, flag) {
				a.inline = true
				if i+1 < len(a.args) {
					a.code = a.args[i+1].Text
				}
				return
			}
		}
		if w.Text == "-" || w.Text == "/dev/stdin" || len(w.Subs) > 0 {
			a.inline, a.script, a.code = true, a.command.Input == "", a.command.Input
			return
		}
		if !strings.HasPrefix(w.Text, "-") {
			return // a file
		}
		if w.Text == "-m" {
			return
		}
	}
	if len(a.from) > 0 || a.command.Input != "" {
		a.inline, a.script, a.code = true, a.command.Input == "", a.command.Input
	}
}

// sedCommand reports a script of sed that runs a command: e, and the flag e of s.
func sedCommand(script string) bool {
	if sedRuns.MatchString(script) && !strings.HasPrefix(script, "s") {
		return true
	}
	if len(script) < 4 || script[0] != 's' {
		return false
	}
	script = strings.ReplaceAll(script, `\`+script[1:2], "")
	for one := range strings.FieldsFuncSeq(script, func(c rune) bool { return c == ';' || c == '\n' }) {
		if parts := strings.Split(strings.TrimSpace(one), script[1:2]); len(parts) == 4 && parts[0] == "s" && strings.Contains(parts[3], "e") {
			return true
		}
	}
	return false
}

// clustered knows -ne and -pie for -e.
func clustered(word, flag string) bool {
	return len(flag) == 2 && len(word) > 2 && len(word) < 8 && word[0] == '-' && word[1] != '-' && strings.Contains(word[1:], flag[1:])
}
