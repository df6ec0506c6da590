package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// Stat is the part of /proc/<pid>/stat that tells processes apart. Start is field 22, in clock ticks since boot.
type Stat struct {
	PID, PPID, PGID, SID int
	State                byte
	Comm                 string
	Start                uint64

	user, system uint64
}

// Dead reports a process that only waits to be reaped: it holds its pid and nothing else.
func (s Stat) Dead() bool { return s.State == 'Z' || s.State == 'X' }

// ReadStat reads one process.
func ReadStat(pid int) (Stat, error) {
	data, err := read(pid, "stat")
	if err != nil {
		return Stat{}, fmt.Errorf("read stat of process %d: %w", pid, err)
	}
	stat, err := parseStat(data)
	if err != nil {
		return Stat{}, fmt.Errorf("read stat of process %d: %w", pid, err)
	}
	return stat, nil
}

// Processes reads every process that can be seen, in no particular order.
func Processes() ([]Stat, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	stats := make([]Stat, 0, len(all))
	for _, pid := range all {
		if stat, err := ReadStat(pid); err == nil {
			stats = append(stats, stat)
		}
	}
	return stats, nil
}

// parseStat reads the line from its last ')': the command's name stands in parentheses and may itself hold
// spaces and parentheses.
func parseStat(data []byte) (Stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, errors.New("no command name")
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, errors.New("too few fields")
	}
	r := fieldReader{fields: fields}
	stat := Stat{
		Comm: string(data[open+1 : end]), State: fields[0][0],
		PPID: int(r.number(4)), PGID: int(r.number(5)), SID: int(r.number(6)),
		user: uint64(r.number(14)), system: uint64(r.number(15)), Start: uint64(r.number(22)),
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	stat.PID = pid
	return stat, errors.Join(err, r.err)
}

// fieldReader numbers the fields as proc(5) does: the state is field 3.
type fieldReader struct {
	fields [][]byte
	err    error
}

func (r *fieldReader) number(field int) int64 {
	n, err := strconv.ParseInt(string(r.fields[field-3]), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("field %d: %w", field, err)
	}
	return n
}

// RSS gives the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	data, err := read(pid, "statm")
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read memory of process %d: too few fields", pid)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// CPUTime gives the processor time that a process has used, all its threads, without its children.
func CPUTime(pid int) (time.Duration, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return 0, err
	}
	return time.Duration(stat.user+stat.system) * (time.Second / ticksPerSecond), nil
}

// NumFDs counts the open descriptors of a process. For the caller's own process the count includes the one
// that is open for counting.
func NumFDs(pid int) (int, error) {
	entries, err := os.ReadDir(path(pid, "fd"))
	if err != nil {
		return 0, fmt.Errorf("count descriptors of process %d: %w", pid, gone(err))
	}
	return len(entries), nil
}

// Gone reports an error that says that the process is no longer there.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
