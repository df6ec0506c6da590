//go:build !linux

package procfs

import "errors"

func inode(string) (dev, ino uint64, err error) { return 0, 0, errors.ErrUnsupported }
