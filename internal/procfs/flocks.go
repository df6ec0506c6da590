package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// FlockHolder names a process that holds a BSD lock on a file, by the kernel's own list: nothing is locked to find out.
// 0 = nobody that can be seen; a holder in another pid namespace cannot be. The list tells files by inode and device. Some
// file systems show other device numbers there than stat does, and then the holder must have the file open by this name.
func FlockHolder(path string) (pid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, nil
	}
	data, err := os.ReadFile(root + "locks")
	if err != nil {
		return 0, fmt.Errorf("read locks: %w", err)
	}
	for line := range bytes.Lines(data) {
		l, ok := parseLock(string(line))
		if !ok || l.ino != st.Ino {
			continue
		}
		if l.dev == devText(uint64(st.Dev)) || hasOpen(l.pid, path) {
			return l.pid, nil
		}
	}
	return 0, nil
}

type lockLine struct {
	pid int
	dev string // "08:01", hexadecimal
	ino uint64
}

// parseLock reads a line such as "1: FLOCK  ADVISORY  WRITE 700 08:01:131 0 EOF". One that waits ("1: -> FLOCK …") holds nothing.
func parseLock(line string) (lockLine, bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[1] != "FLOCK" {
		return lockLine{}, false
	}
	pid, err := strconv.Atoi(f[4])
	at := strings.LastIndexByte(f[5], ':')
	if err != nil || pid <= 0 || at < 0 {
		return lockLine{}, false
	}
	ino, err := strconv.ParseUint(f[5][at+1:], 10, 64)
	return lockLine{pid, f[5][:at], ino}, err == nil
}

// devText writes a device as the kernel's list does.
func devText(dev uint64) string {
	major := (dev>>8)&0xfff | (dev>>32)&^uint64(0xfff)
	minor := dev&0xff | (dev>>12)&^uint64(0xff)
	return fmt.Sprintf("%02x:%02x", major, minor)
}

func hasOpen(pid int, file string) bool {
	entries, err := os.ReadDir(path(pid, "fd"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(path(pid, "fd/"+e.Name())); err == nil && to == file {
			return true
		}
	}
	return false
}
