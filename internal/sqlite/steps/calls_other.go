//go:build !linux

package steps

import "errors"

// BeforeCall needs a kernel that asks before a call: Linux has one.
func BeforeCall(int64, func(call string)) (*Stop, error) { return nil, errors.ErrUnsupported }
