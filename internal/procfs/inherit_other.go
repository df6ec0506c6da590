//go:build !linux

package procfs

import "errors"

// Inherited needs /proc.
func Inherited() ([]int, error) { return nil, errors.ErrUnsupported }
