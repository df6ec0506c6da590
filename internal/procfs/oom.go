package procfs

import (
	"os"
	"path/filepath"
	"strings"
)

// OOMCount is how many processes the kernel has ended for want of memory in a control group and those below it, since the group
// was made.
type OOMCount struct {
	Group string `json:"group"` // its path; a group that was made anew under one name counts from 0 again
	Kills int64  `json:"kills"`
}

// OOMCounts reads the counts of the groups that this process is in, its own first and then those above it. None where the machine
// does not count (control groups of version 1, or none).
func OOMCounts() []OOMCount { return oomCountsAt(strings.TrimSuffix(root, "/"), groups) }

func oomCountsAt(proc, groups string) (counts []OOMCount) {
	own, err := os.ReadFile(proc + "/self/cgroup")
	if err != nil {
		return nil
	}
	unified, _ := memoryGroups(own)
	for _, path := range upwards(groups, unified) {
		events, err := os.ReadFile(filepath.Join(path, "memory.events"))
		if err == nil && strings.Contains(string(events), "oom_kill ") {
			counts = append(counts, OOMCount{Group: strings.TrimPrefix(path, groups), Kills: lineOf(events, "oom_kill")})
		}
	}
	return counts
}
