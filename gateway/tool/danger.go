package tool

import (
	"path"
	"slices"
	"strings"

	"gatewayd/gateway/tool/sh"
)

// MaxCommand bounds what is read of a command. One that is longer is asked about as a whole.
const MaxCommand = 64 << 10

// Dangers gives what a shell command would do that a person should be asked about, each rule at its first place. It is a list of what
// has hurt people and no fence: a program that the model writes into a file and then runs is not read. root is the directory that the
// turn works in and may write to; self may be nil.
func Dangers(command string, self *Self, root string) []Hazard {
	return dangers(command, self, root, standing{dir: root})
}

// dangers is Dangers for a shell that stands somewhere already.
func dangers(command string, self *Self, root string, at standing) []Hazard {
	if len(command) > MaxCommand {
		return []Hazard{{Rule: "unreadable", What: "is too long to be read", Piece: command[:200]}}
	}
	acts, broken := actions(command, at, self)
	var found []Hazard
	add := func(h Hazard) {
		if !slices.ContainsFunc(found, func(f Hazard) bool { return f.Rule == h.Rule && f.Piece == h.Piece }) {
			found = append(found, h)
		}
	}
	if broken {
		add(Hazard{Rule: "unreadable", What: "has quotes or brackets that are not closed, or is nested too deeply to be read", Piece: command})
	}
	for _, a := range acts {
		for _, r := range rules {
			if r.match(a) {
				add(Hazard{Rule: r.name, What: r.what, Piece: a.text()})
			}
		}
		for _, h := range writes(a, root) {
			add(h)
		}
	}
	return found
}

// rule is one named kind of danger. Names are what grants and tools.allow refer to: they do not change.
type rule struct {
	name, what string
	match      func(a action) bool
}

var rules = slices.Concat(fileRules, codeRules, systemRules, remoteRules)

// Rules lists the names of all rules, sorted.
func Rules() []string {
	names := []string{RuleAny, "unreadable", ruleSystem, ruleOutside, ruleAccount}
	for _, r := range rules {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var fileRules = []rule{
	{"recursive-delete", "deletes directories with all that is in them", func(a action) bool {
		switch {
		case a.is("rm"):
			return a.recursive()
		case a.is("find"):
			return a.has("-delete")
		case a.is("rsync"):
			return slices.ContainsFunc(a.texts(), func(arg string) bool { return strings.HasPrefix(arg, "--delete") })
		}
		return false
	}},
	{"fed-delete", "deletes files whose names come from another command", func(a action) bool {
		return a.fed && a.is("rm", "unlink", "shred") && !a.short("rR")
	}},
	{"shred", "overwrites files so that they cannot be brought back", func(a action) bool { return a.is("shred", "srm", "wipe") }},
	{"open-permissions", "lets everybody write", func(a action) bool {
		return a.is("chmod") && slices.ContainsFunc(a.texts(), worldWritable)
	}},
	{"recursive-permissions", "changes the mode or owner of whole directories outside of the working directory", func(a action) bool {
		return a.is("chmod", "chown", "chgrp") && (a.short("R") || a.has("--recursive")) && slices.ContainsFunc(a.operands(), func(arg string) bool {
			return strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "~") || strings.HasPrefix(arg, "..")
		})
	}},
	{"set-user-id", "makes a program run as its owner", func(a action) bool {
		return a.is("chmod") && slices.ContainsFunc(a.operands(), func(arg string) bool {
			return strings.Contains(arg, "+s") || len(arg) == 4 && strings.Trim(arg, "01234567") == "" && arg[0] >= '2'
		})
	}},
	{"git-discard", "throws away work that git does not keep", func(a action) bool {
		if !a.is("git") {
			return false
		}
		verb, rest := a.verb(gitValued)
		switch verb {
		case "reset":
			return slices.Contains(rest, "--hard") || slices.Contains(rest, "--merge")
		case "clean":
			return hasShort(rest, "f") || slices.Contains(rest, "--force")
		case "checkout":
			return slices.Contains(rest, "--") || slices.Contains(rest, ".") || hasShort(rest, "f") || slices.Contains(rest, "--force")
		case "restore":
			return !slices.Contains(rest, "--staged") || slices.Contains(rest, "--worktree")
		case "branch", "tag":
			return hasShort(rest, "D") || verb == "branch" && hasShort(rest, "d") && hasShort(rest, "f")
		case "stash":
			return slices.Contains(rest, "drop") || slices.Contains(rest, "clear")
		case "filter-branch", "filter-repo", "update-ref":
			return true
		case "reflog":
			return slices.Contains(rest, "expire") || slices.Contains(rest, "delete")
		case "worktree":
			return slices.Contains(rest, "remove") && slices.Contains(rest, "--force")
		}
		return false
	}},
	{"git-push-force", "rewrites or deletes what others have in git", func(a action) bool {
		verb, rest := a.verb(gitValued)
		return a.is("git") && verb == "push" && slices.ContainsFunc(rest, func(arg string) bool {
			return strings.HasPrefix(arg, "--force") || arg == "--delete" || arg == "--mirror" || arg == "--prune" || arg == "-d" ||
				strings.HasPrefix(arg, "-f") || strings.HasPrefix(arg, "+") || len(arg) > 1 && arg[0] == ':'
		})
	}},
}

var gitValued = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace"}

func worldWritable(arg string) bool {
	if len(arg) >= 3 && len(arg) <= 4 && strings.Trim(arg, "01234567") == "" {
		return strings.ContainsRune("2367", rune(arg[len(arg)-1]))
	}
	who, what, ok := strings.Cut(arg, "+")
	if !ok {
		who, what, ok = strings.Cut(arg, "=")
	}
	return ok && strings.Trim(who, "ugoa,rwxX+=-") == "" && strings.Contains(what, "w") && (who == "" || strings.ContainsAny(who, "oa"))
}

var codeRules = []rule{
	{"pipe-to-shell", "runs text that another program prints, and that nobody has seen", func(a action) bool {
		return a.script && (slices.Contains(shellNames, a.name) || a.is("eval", ".", "source", "bash") || a.inline)
	}},
	{"inline-code", "runs a program written into the command, which cannot be read here", func(a action) bool { return a.inline && !a.script }},
	{"computed-command", "runs a program whose name is only known when it runs", func(a action) bool { return a.open }},
	{"sql-destroy", "deletes tables, or rows without a condition", func(a action) bool { return a.is(databases...) && destroysRows(a) }},
	{"database-drop", "drops a database", func(a action) bool {
		return a.is("dropdb", "dropuser") || a.is("mysqladmin") && a.has("drop") || a.is("redis-cli", "valkey-cli") && a.anyFold("flushall", "flushdb") ||
			a.is("mongo", "mongosh") && strings.Contains(strings.ToLower(a.text()), "drop")
	}},
}

var databases = []string{"psql", "mysql", "mariadb", "sqlite3", "sqlite", "sqlcmd", "clickhouse-client", "clickhouse", "duckdb", "cockroach", "usql", "bq", "snowsql", "litecli", "pgcli", "mycli"}

// operands are the arguments that are no options.
func (a action) operands() []string {
	return slices.DeleteFunc(a.texts(), func(arg string) bool { return strings.HasPrefix(arg, "-") && len(arg) > 1 })
}

// verb gives the first operand and what is behind it. valued are options before it that take a word.
func (a action) verb(valued []string) (verb string, rest []string) {
	args := a.texts()
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains(valued, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i], args[i+1:]
		}
	}
	return "", nil
}

func hasShort(args []string, letters string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.ContainsAny(arg, letters)
	})
}

func (a action) anyFold(words ...string) bool {
	return slices.ContainsFunc(a.texts(), func(arg string) bool { return slices.Contains(words, strings.ToLower(arg)) })
}

// destroysRows reads SQL wherever a client gets it from.
func destroysRows(a action) bool {
	text := strings.Join(a.texts(), " ; ") + " ; " + a.command.Input
	for _, c := range a.from {
		said, _ := c.Prints()
		text += " ; " + said
	}
	for statement := range strings.SplitSeq(strings.ToLower(uncommented(text)), ";") {
		words := strings.Fields(statement)
		for i, word := range words {
			next := ""
			if i+1 < len(words) {
				next = words[i+1]
			}
			switch {
			case word == "drop" && slices.Contains([]string{"table", "database", "schema", "index", "view", "user", "role", "collection"}, next):
				return true
			case word == "truncate" && next != "":
				return true
			case word == "delete" && next == "from" && !slices.Contains(words, "where"):
				return true
			case word == "update" && slices.Contains(words[i:], "set") && !slices.Contains(words, "where"):
				return true
			}
		}
	}
	return false
}

// uncommented takes /* … */ and -- … out of SQL, which can stand between any two words.
func uncommented(sql string) string {
	var b strings.Builder
	for sql != "" {
		switch {
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
			b.WriteByte(' ')
		case strings.HasPrefix(sql, "-- "):
			_, sql, _ = strings.Cut(sql, "\n")
			b.WriteByte(' ')
		default:
			b.WriteByte(sql[0])
			sql = sql[1:]
		}
	}
	return b.String()
}

const (
	ruleSystem  = "system-files"
	ruleOutside = "outside-files"
	ruleAccount = "account-files"
)

// systemDirs are where the machine itself lives.
var systemDirs = []string{"/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/root", "/var/lib", "/var/spool", "/sys", "/proc", "/efi", "/run/systemd", "/Library", "/System"}

// freeDirs are where everybody may write.
var freeDirs = []string{"/tmp", "/var/tmp", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd", "/dev/shm"}

// accountFiles decide what runs, and who comes in, when somebody logs in.
var accountFiles = []string{
	".ssh", ".gnupg", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".pam_environment",
	".netrc", ".aws", ".kube", ".docker/config.json", ".config/autostart", ".config/systemd", ".gitconfig", ".npmrc", ".pypirc",
}

// writes gives the files that an action writes and that a person should know of.
func writes(a action, dir string) []Hazard {
	if a.remote {
		return nil
	}
	var found []Hazard
	for _, name := range written(a) {
		if h, ok := judgePlace(name, dir); ok {
			found = append(found, h)
		}
	}
	return found
}

// judgePlace judges a path that is written to.
func judgePlace(name, dir string) (Hazard, bool) {
	switch {
	case name == "" || slices.ContainsFunc(freeDirs, func(free string) bool { return isInside(name, free) }):
		return Hazard{}, false
	case slices.ContainsFunc(accountFiles, func(file string) bool {
		return strings.HasSuffix(name, "/"+file) || strings.Contains(name, "/"+file+"/")
	}):
		return Hazard{ruleAccount, "changes files that decide what runs, or who comes in, under this account", name}, true
	case dir != "" && isInside(name, dir):
		return Hazard{}, false
	case slices.ContainsFunc(systemDirs, func(system string) bool { return isInside(name, system) }):
		return Hazard{ruleSystem, "changes files of the system", name}, true
	case dir != "":
		return Hazard{ruleOutside, "writes outside of the working directory", name}, true
	}
	return Hazard{}, false
}

// outside judges what a tool says that it writes.
func outside(names []string, dir string) []Hazard {
	var found []Hazard
	for _, name := range names {
		if h, ok := judgePlace(path.Clean(name), dir); ok {
			found = append(found, h)
		}
	}
	return found
}

// written gives the full paths that an action writes, moves over or takes away, as far as they are in the text.
func written(a action) []string {
	var names []string
	add := func(words ...sh.Word) {
		for _, w := range words {
			if name := absolute(a.dir, w.Text); name != "" && !strings.HasPrefix(name, "/$") {
				names = append(names, name)
			}
		}
	}
	for _, r := range a.command.Redirects {
		if r.Writes() {
			add(r.Target)
		}
	}
	plain := slices.DeleteFunc(slices.Clone(a.args), func(w sh.Word) bool { return strings.HasPrefix(w.Text, "-") && w.Text != "-" })
	switch {
	case a.is("tee", "truncate", "touch", "rm", "rmdir", "unlink", "shred", "mkdir", "mkfifo", "mknod", "sponge", "ed", "ex", "vi", "vim", "nano"):
		add(plain...)
	case a.is("curl", "wget", "sort"):
		add(a.valued("-o", "-O", "--output", "--output-document")...)
	case a.is("cp", "install", "ln", "rsync", "scp"):
		if i := slices.IndexFunc(a.args, func(w sh.Word) bool { return w.Text == "-t" }); i >= 0 && i+1 < len(a.args) {
			add(a.args[i+1])
		} else if len(plain) > 1 {
			add(plain[len(plain)-1])
		}
	case a.is("mv"):
		add(plain...)
	case a.is("sed", "perl"):
		if a.short("i") || a.has("--in-place") {
			add(plain[min(1, len(plain)):]...)
		}
	case a.is("chmod", "chown", "chgrp", "chattr", "setfacl"):
		add(plain[min(1, len(plain)):]...)
	case a.is("dd"):
		for _, w := range a.args {
			if file, ok := strings.CutPrefix(w.Text, "of="); ok {
				add(sh.Word{Text: file})
			}
		}
	}
	return names
}
