package kanban

import (
	"os"
	"time"
)

// makingBound is far above what the making of a board takes between its empty file and its first page.
const makingBound = 5 * time.Second

// BeingMade reports a file that another process has just begun to make a board of: it has no byte yet, and nobody who looks at it now has
// anything to report. One that stays so, or has a -wal beside it, is not being made.
func BeingMade(path string) bool {
	if _, err := os.Lstat(path + "-wal"); err == nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0 && time.Since(info.ModTime()) < makingBound
}
