package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is what there is of memory for new work, of the machine or, where that is tighter, of a control group that this
// process is in.
type Memory struct {
	Total, Available int64   // bytes
	Some, Full       float64 // percent of the last ten seconds in which some, and all, tasks waited for memory; 0 where unknown
	Group            string  // the control group whose limit it is; "" = the machine
}

// groups is where control groups are mounted.
const groups = "/sys/fs/cgroup"

// ReadMemory reads both. A kernel without pressure figures, or a machine without control groups, is no error.
func ReadMemory() (Memory, error) { return memoryAt(strings.TrimSuffix(root, "/"), groups) }

func memoryAt(proc, groups string) (Memory, error) {
	info, err := os.ReadFile(proc + "/meminfo")
	if err != nil {
		return Memory{}, fmt.Errorf("read memory: %w", err)
	}
	m := Memory{Total: kilobytes(info, "MemTotal:"), Available: kilobytes(info, "MemAvailable:")}
	if m.Total <= 0 {
		return Memory{}, errors.New("read memory: no total in meminfo")
	}
	m.feel(proc + "/pressure/memory")
	own, err := os.ReadFile(proc + "/self/cgroup")
	if err != nil {
		return m, nil
	}
	unified, classic := memoryGroups(own)
	for _, path := range upwards(groups, unified) {
		m.tighten(strings.TrimPrefix(path, groups), limitsOf(path, "memory.max", "memory.current", "inactive_file"))
		m.feel(path + "/memory.pressure")
	}
	base := groups + "/memory"
	for _, path := range upwards(base, classic) {
		m.tighten(strings.TrimPrefix(path, base), limitsOf(path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
	}
	return m, nil
}

// kilobytes gives one line of meminfo in bytes.
func kilobytes(info []byte, key string) int64 {
	_, rest, ok := bytes.Cut(info, []byte(key))
	fields := bytes.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// feel takes the pressure of a file over, where it is higher.
func (m *Memory) feel(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(line, " avg10=")
		word, _, _ := strings.Cut(rest, " ")
		share, err := strconv.ParseFloat(word, 64)
		switch {
		case err != nil:
		case kind == "some":
			m.Some = max(m.Some, share)
		case kind == "full":
			m.Full = max(m.Full, share)
		}
	}
}

// limits of one group: what is used counts without what the kernel would give up first. A max of 0 is no limit.
type limits struct{ max, available int64 }

func limitsOf(dir, most, used, inactive string) limits {
	ceiling, used64 := number(dir, most), number(dir, used)
	if ceiling <= 0 {
		return limits{}
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err == nil {
		used64 -= lineOf(stat, inactive)
	}
	return limits{ceiling, max(0, ceiling-max(0, used64))}
}

// number reads a file of one number; "max" and what is no number is 0.
func number(dir, name string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func lineOf(stat []byte, key string) int64 {
	for line := range strings.Lines(string(stat)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == key {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n
		}
	}
	return 0
}

// tighten takes a group's limit over where it leaves a smaller share than what was looked at before. A limit above the
// machine's memory is none.
func (m *Memory) tighten(group string, l limits) {
	if l.max <= 0 || l.max >= m.Total && m.Group == "" {
		return
	}
	if float64(l.available)/float64(l.max) < float64(m.Available)/float64(m.Total) {
		m.Total, m.Available, m.Group = l.max, l.available, "/"+strings.TrimPrefix(group, "/")
	}
}

// memoryGroups finds the paths of this process in the unified hierarchy and in the one of memory alone.
func memoryGroups(text []byte) (unified, classic string) {
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			unified = parts[2]
		case strings.Contains(","+parts[1]+",", ",memory,"):
			classic = parts[2]
		}
	}
	return unified, classic
}

// upwards gives the directories from a group up to the mount. Inside a container the path may be that of the host, of which
// only the mount itself is there; a path that is "" is none.
func upwards(mount, path string) []string {
	if path == "" {
		return nil
	}
	var dirs []string
	for dir := filepath.Join(mount, path); strings.HasPrefix(dir, mount); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// MemoryCeiling is the lowest limit of memory of the control groups that this process is in, in bytes; 0 where there is none below the
// machine's own memory.
func MemoryCeiling() int64 { return ceilingAt(strings.TrimSuffix(root, "/"), groups) }

func ceilingAt(proc, groups string) (ceiling int64) {
	info, err := os.ReadFile(proc + "/meminfo")
	own, gerr := os.ReadFile(proc + "/self/cgroup")
	if err != nil || gerr != nil {
		return 0
	}
	total := kilobytes(info, "MemTotal:")
	unified, classic := memoryGroups(own)
	tighter := func(dirs []string, name string) {
		for _, dir := range dirs {
			if most := number(dir, name); most > 0 && most < total && (ceiling == 0 || most < ceiling) {
				ceiling = most
			}
		}
	}
	tighter(upwards(groups, unified), "memory.max")
	tighter(upwards(groups+"/memory", classic), "memory.limit_in_bytes")
	return ceiling
}
