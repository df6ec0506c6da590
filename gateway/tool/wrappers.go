package tool

import (
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

var wrappers = map[string]wrapper{
	"sudo":            {valued: []string{"-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-D", "-R", "-U", "--user", "--group"}, root: true, keep: true, setters: true},
	"doas":            {valued: []string{"-u", "-C"}, root: true, keep: true},
	"pkexec":          {valued: []string{"--user"}, root: true, keep: true},
	"su":              {valued: []string{"-s", "-g", "-G", "-w"}, texts: []string{"-c", "--command"}, root: true, keep: true, skip: 9},
	"runuser":         {valued: []string{"-u", "-g", "-G", "-s"}, texts: []string{"-c", "--command"}, root: true, keep: true},
	"env":             {valued: []string{"-u", "-C", "--unset", "--chdir"}, texts: []string{"-S", "--split-string"}, setters: true},
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
	"script":          {texts: []string{"-c", "--command"}, skip: 9},
	"docker":          {valued: containerOptions, skip: 1, remote: true, keep: true, sub: []string{"exec", "run"}},
	"podman":          {valued: containerOptions, skip: 1, remote: true, keep: true, sub: []string{"exec", "run"}},
	"kubectl":         {valued: []string{"-n", "-c", "--namespace", "--container", "--context"}, skip: 1, remote: true, keep: true, sub: []string{"exec"}},
	"ssh":             {valued: []string{"-p", "-i", "-l", "-o", "-L", "-R", "-D", "-F", "-J", "-b", "-c", "-E", "-e", "-m", "-Q", "-S", "-W", "-w"}, skip: 1, remote: true, words: true},
}

var containerOptions = []string{
	"-e", "--env", "-v", "--volume", "-w", "--workdir", "-u", "--user", "--name", "-p", "--publish", "--network", "--entrypoint", "-m", "--memory", "--mount",
	"-l", "--label", "-h", "--hostname", "--env-file", "--platform", "--cpus",
}

// text gives the shell's text that a wrapper is handed, if it is.
func (w wrapper) text(args []sh.Word) (string, bool) {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg.Text, "=")
		if !slices.Contains(w.texts, name) {
			continue
		}
		if joined {
			return value, true
		}
		if i+1 < len(args) {
			return args[i+1].Text, true
		}
	}
	if !w.words {
		return "", false
	}
	inner := w.inner(args)
	words := make([]string, 0, len(inner))
	for _, word := range inner {
		if word.Text != ":::" {
			words = append(words, word.Text)
		}
	}
	return strings.Join(words, " "), len(words) > 0
}

// inner gives the program behind a wrapper, with its words; none when there is none.
func (w wrapper) inner(args []sh.Word) []sh.Word {
	if len(w.sub) > 0 {
		i := slices.IndexFunc(args, func(arg sh.Word) bool { return slices.Contains(w.sub, arg.Text) })
		if i < 0 || i > 3 {
			return nil
		}
		args = args[i+1:]
	}
	args = w.options(args)
	for range w.skip {
		if len(args) == 0 {
			return nil
		}
		args = args[1:]
		if len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
	}
	for len(args) > 0 && (isNumber(args[0].Text) || w.setters && assigns(args[0].Text)) {
		args = args[1:]
	}
	return args
}

// options passes a wrapper's own options.
func (w wrapper) options(args []sh.Word) []sh.Word {
	for len(args) > 0 {
		text := args[0].Text
		switch {
		case text == "--":
			return args[1:]
		case slices.Contains(w.valued, text) && len(args) > 1:
			args = args[2:]
		case strings.HasPrefix(text, "-"), w.setters && assigns(text):
			args = args[1:]
		default:
			return args
		}
	}
	return nil
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

// interpret marks an interpreter that is given its program in the text, or by its standard input.
func interpret(a *action) {
	name := strings.TrimRight(a.name, "0123456789.")
	flags, ok := interpreters[name]
	if !ok {
		a.inline = (name == "awk" || name == "gawk" || name == "mawk") && slices.ContainsFunc(a.args, func(w sh.Word) bool {
			return strings.Contains(w.Text, "system(") || strings.Contains(w.Text, "| getline")
		})
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

// clustered knows -ne and -pie for -e.
func clustered(word, flag string) bool {
	return len(flag) == 2 && len(word) > 2 && len(word) < 8 && word[0] == '-' && word[1] != '-' && strings.Contains(word[1:], flag[1:])
}
