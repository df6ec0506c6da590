//go:build !linux

package doctor

import (
	"os"
	"time"
)

func birth(path string) (made time.Time, there bool) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}
