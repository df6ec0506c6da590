package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// traced are the system calls by which something is written under a name. A question mark is for those that not every machine has.
const traced = "openat,openat2,?open,?creat,?mkdir,mkdirat,?rename,?renameat,renameat2,?unlink,unlinkat,?rmdir,?link,linkat,?symlink,symlinkat,truncate,?chmod,fchmodat,?fchmodat2,?chown,fchownat,?utimensat,?mknod,mknodat,bind"

var (
	traceLine = regexp.MustCompile(`^(\d+) +(.*)$`)
	resumed   = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
	callLine  = regexp.MustCompile(`^(\w+)\((.*)\) += (.*)$`)
	named1    = regexp.MustCompile(`(?:(AT_FDCWD|\d+)<([^>]*)>, |sun_path=)?("(?:[^"\\]|\\.)*")`)
	writing   = regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC`)
	nameless  = regexp.MustCompile(`O_TMPFILE`) // SQLite's scratch: it never has a name, and is gone with its descriptor, kill -9 included
)

// writtenPaths gives the paths that a trace shows to be written, or tried to, each once.
func writtenPaths(trace, cwd string) (paths []string) {
	pending := map[string]string{}
	for line := range strings.Lines(trace) {
		m := traceLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		pid, call := m[1], m[2]
		if begun, ok := strings.CutSuffix(call, " <unfinished ...>"); ok {
			pending[pid] = begun
			continue
		}
		if rest := resumed.FindStringSubmatch(call); rest != nil {
			call = pending[pid] + rest[1]
			delete(pending, pid)
		}
		paths = append(paths, writtenBy(call, cwd)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func writtenBy(call, cwd string) (paths []string) {
	m := callLine.FindStringSubmatch(call)
	if m == nil {
		return nil
	}
	name, args := m[1], m[2]
	if strings.HasPrefix(name, "open") && (!writing.MatchString(args) || nameless.MatchString(args)) || name == "bind" && !strings.Contains(args, "sun_path=\"") {
		return nil
	}
	for _, n := range named1.FindAllStringSubmatch(args, -1) {
		path, err := strconv.Unquote(n[3])
		if err != nil || path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			dir := cwd
			if n[2] != "" {
				dir = n[2]
			}
			path = filepath.Join(dir, path)
		}
		paths = append(paths, filepath.Clean(path))
	}
	if len(paths) > 1 && (strings.HasPrefix(name, "link") || strings.HasPrefix(name, "symlink")) {
		return paths[1:] // the first is what is pointed to
	}
	return paths
}

func TestATraceTellsWhatIsWritten(t *testing.T) {
	got := writtenPaths(`7 openat(AT_FDCWD</there>, "read", O_RDONLY|O_CLOEXEC) = 3</there/read>
7 openat(AT_FDCWD</there>, "made", O_WRONLY|O_CREAT, 0600 <unfinished ...>
8 mkdirat(5</home/a>, "dir", 0700) = 0
7 <... openat resumed>) = 4</there/made>
8 renameat2(5</home/a>, "x", 5</home/a>, "../b", 0) = 0
8 symlinkat("/target", AT_FDCWD</there>, "link") = 0
8 unlinkat(AT_FDCWD</there>, "/tmp/gone", 0) = -1 ENOENT (No such file or directory)
8 bind(3<socket:[9]>, {sa_family=AF_UNIX, sun_path="/tmp/s"}, 9) = 0
8 bind(3<socket:[9]>, {sa_family=AF_INET, sin_port=htons(0)}, 16) = 0
`, "/there")
	want := []string{"/home/a/dir", "/home/a/x", "/home/b", "/there/link", "/there/made", "/tmp/gone", "/tmp/s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
