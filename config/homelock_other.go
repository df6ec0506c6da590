//go:build !linux

package config

import (
	"errors"
	"os"
)

const lockFlags = 0

// takeLock is only there so that the tree builds: the daemon runs on Linux.
func takeLock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

func askLock(*os.File) (held bool, err error) { return false, errors.ErrUnsupported }

func sameChange(*os.File, string) bool { return false }
