package kanban

import (
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

func hostname() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "unknown"
}

// ClaimLock is this process as the holder of a claim, in the form that Hermes compares: "<hostname>:<pid>".
func ClaimLock() string { return hostname() + ":" + strconv.Itoa(os.Getpid()) }

// HostLocal reports whether a claim was made on this machine. Only then do its pids mean anything here.
func HostLocal(lock string) bool { return strings.HasPrefix(lock, hostname()+":") }

// clean makes foreign text storable: what is no UTF-8 becomes U+FFFD, and so does NUL, which ends a text for programs in C and
// can be no part of a worker's argument.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// firstLine is the first line of a text that has any letters, at most n characters long.
func firstLine(s string, n int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return cut(strings.TrimSpace(line), n)
}

// cut keeps at most n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// joinSome lists the first few of many.
func joinSome(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + " and " + strconv.Itoa(len(list)-n) + " more"
}
