//go:build !linux

package e2e

import "errors"

// Elsewhere than on Linux nothing here runs, since the program does not; it has to compile all the same.

const (
	containerEnv    = ""
	machineEnv      = ""
	containerFailed = 111
)

func beContainer(string) error { return errors.ErrUnsupported }

func beMachine(string) error { return errors.ErrUnsupported }

func mountMemory(string, bool, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
