package procfs

import "strconv"

// FDPath is where this process finds one of its own open files, whatever name that has, or none. It is a path to
// follow: a link made from it is a link to the file.
func FDPath(fd uintptr) string { return "/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10) }
