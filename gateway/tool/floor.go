package tool

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Catastrophe says what a shell command would destroy beyond repair, or "". It is a floor and no fence: it knows a handful of
// commands that no task needs, in their usual disguises (quotes, $IFS, full paths, wide letters, sudo, sh -c).
func Catastrophe(command string) string {
	plain := normalise(command)
	if forkBomb.MatchString(strings.Join(strings.Fields(plain), "")) {
		return "start processes without end (a fork bomb)"
	}
	if deviceWrite.MatchString(plain) {
		return "overwrite a whole disk"
	}
	for _, segment := range separators.Split(plain, -1) {
		if what := verdict(unwrap(strings.Fields(segment))); what != "" {
			return what
		}
	}
	return ""
}

var (
	forkBomb    = regexp.MustCompile(`([\w:]+)\(\)\{([\w:]+)\|([\w:]+)&\};?([\w:]+)`)
	deviceWrite = regexp.MustCompile(`>\s*/dev/(sd[a-z]|nvme\d|vd[a-z]|xvd[a-z]|hd[a-z]|mmcblk\d|disk\d|dm-\d|mapper/)`)
	device      = regexp.MustCompile(`^/dev/(sd[a-z]|nvme\d|vd[a-z]|xvd[a-z]|hd[a-z]|mmcblk\d|disk\d|dm-\d|mapper/|root$)`)
	separators  = regexp.MustCompile("[;&|\n\r(){}`]+")
	assignment  = regexp.MustCompile(`^\w+=`)
	ifs         = regexp.MustCompile(`\$\{?IFS\}?`)
)

// normalise undoes what hides a word from a reader of words. It may glue words that the shell keeps apart, never the reverse.
func normalise(command string) string {
	command = strings.ReplaceAll(command, "\\\n", "")
	command = ifs.ReplaceAllString(command, " ")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\'' || r == '"' || r == '\\':
			return -1
		case r >= 0xFF01 && r <= 0xFF5E: // wide forms of ASCII
			return r - 0xFEE0
		case r == 0x00A0 || r == 0x3000:
			return ' '
		case r == 0x200B || r == 0x200C || r == 0x200D || r == 0xFEFF:
			return -1
		}
		return r
	}, command)
}

// wrappers run the command that follows them. Their own options are skipped; an option's value that is taken for the command is
// only a miss of the floor.
var wrappers = []string{
	"sudo", "doas", "env", "nohup", "exec", "command", "time", "nice", "ionice", "setsid", "stdbuf", "timeout", "xargs", "busybox",
	"sh", "bash", "dash", "zsh", "ash", "ksh", "eval", "then", "do", "else", "!", "if", "while",
}

func unwrap(words []string) []string {
	for len(words) > 0 {
		name := path.Base(words[0])
		if !slices.Contains(wrappers, name) && !assignment.MatchString(words[0]) {
			return words
		}
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || isNumber(words[0])) {
			words = words[1:]
		}
	}
	return nil
}

func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789.smhd") == ""
}

func verdict(words []string) string {
	if len(words) == 0 {
		return ""
	}
	name, args := path.Base(words[0]), words[1:]
	switch {
	case name == "rm" && recursive(args) && slices.ContainsFunc(args, isRoot):
		return "delete the whole file system"
	case name == "find" && slices.ContainsFunc(args, isRoot) && slices.Contains(args, "-delete") && !slices.Contains(args, "-name"):
		return "delete the whole file system"
	case (name == "chmod" || name == "chown") && recursive(args) && slices.ContainsFunc(args, isRoot):
		return "change the owner or mode of every file"
	case name == "mkfs" || strings.HasPrefix(name, "mkfs.") || name == "wipefs" || name == "blkdiscard":
		return onDevice(args, "erase a file system")
	case name == "dd" || name == "tee" || name == "shred" || name == "cp":
		return onDevice(args, "overwrite a whole disk")
	case name == "kill" && len(args) > 1 && slices.Contains(args[1:], "-1"): // kill -1 PID is a SIGHUP
		return "kill every process of this user, gatewayd included"
	}
	return ""
}

// onDevice looks for a disk among the arguments that are written to.
func onDevice(args []string, what string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "if=") {
			continue
		}
		if device.MatchString(strings.TrimPrefix(arg, "of=")) {
			return what
		}
	}
	return ""
}

func recursive(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		if strings.HasPrefix(arg, "--") {
			return arg == "--recursive"
		}
		return strings.HasPrefix(arg, "-") && strings.ContainsAny(arg, "rR")
	})
}

// isRoot knows the root directory by its many names: /, //, /*, /., /.. and combinations of them.
func isRoot(arg string) bool {
	arg = strings.TrimRight(arg, "*")
	return strings.HasPrefix(arg, "/") && path.Clean(arg) == "/"
}
