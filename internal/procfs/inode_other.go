//go:build !linux

package procfs

import (
	"errors"
	"os"
)

func inodeIn(*os.File, string) (dev, ino uint64, err error) { return 0, 0, errors.ErrUnsupported }

func readlinkIn(*os.File, string, []byte) (string, error) { return "", errors.ErrUnsupported }

func inode(string) (dev, ino uint64, err error) { return 0, 0, errors.ErrUnsupported }
