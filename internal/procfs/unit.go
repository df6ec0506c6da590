package procfs

import (
	"os"
	"path/filepath"
	"strings"
)

// Unit gives the service of systemd that this process runs in, "gatewayd.service"; "" where it runs in none, or in a login's session.
func Unit() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitOf(string(text))
}

func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), "::")
		if name := filepath.Base(group); strings.HasSuffix(name, ".service") {
			return name
		}
	}
	return ""
}
