package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mount is one line of the mount table: where, and which kind of file system ("ext4", "fuse.sshfs").
type Mount struct{ Point, FSType string }

// MountOf says what a directory is mounted on. The directory is resolved first, so that a link into another
// file system is told by where it leads.
func MountOf(dir string) (Mount, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Mount{}, fmt.Errorf("resolve directory: %w", err)
	}
	resolved, err = filepath.Abs(resolved)
	if err != nil {
		return Mount{}, fmt.Errorf("resolve directory: %w", err)
	}
	table, err := os.ReadFile(root + "self/mountinfo")
	if err != nil {
		return Mount{}, fmt.Errorf("read mount table: %w", err)
	}
	mount, ok := mountOf(string(table), resolved)
	if !ok {
		return Mount{}, fmt.Errorf("find mount of %s: not in the mount table", resolved)
	}
	return mount, nil
}

// mountOf picks the longest mount point that is a prefix of dir by whole components. Of two with the same point
// the later line wins, because it is mounted on top.
func mountOf(table, dir string) (Mount, bool) {
	var best Mount
	found := false
	for line := range strings.Lines(table) {
		mount, ok := parseMount(line)
		if !ok || !under(dir, mount.Point) {
			continue
		}
		if !found || len(mount.Point) >= len(best.Point) {
			best, found = mount, true
		}
	}
	return best, found
}

// parseMount takes the fifth field and the first one after the " - " that ends the optional fields.
func parseMount(line string) (Mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if !ok || len(fields) < 5 || len(rest) < 1 {
		return Mount{}, false
	}
	return Mount{Point: unescape(fields[4]), FSType: rest[0]}, true
}

func under(dir, point string) bool {
	if point == "/" || dir == point {
		return true
	}
	return strings.HasPrefix(dir, point+"/")
}

// unescape decodes the octal escapes in which the kernel writes space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1:i+4]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '7' {
			return false
		}
	}
	return true
}

// MountsUnder lists the mount points at a resolved path and below it, as this process sees them.
func MountsUnder(path string) ([]string, error) {
	table, err := os.ReadFile(root + "self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mount table: %w", err)
	}
	return mountsUnder(string(table), path), nil
}

func mountsUnder(table, path string) []string {
	var points []string
	for line := range strings.Lines(table) {
		if mount, ok := parseMount(line); ok && under(mount.Point, path) {
			points = append(points, mount.Point)
		}
	}
	return points
}
