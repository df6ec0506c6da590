package tool

import (
	"io/fs"
	"syscall"
)

func stampOf(info fs.FileInfo) stamp {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	}
	return stamp{dev: uint64(s.Dev), ino: s.Ino, size: s.Size, mtime: s.Mtim.Nano(), changed: s.Ctim.Nano()}
}
