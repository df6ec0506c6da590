package kanban

import "os"

// tipFile stands once the tip was given on this root; Hermes looks for the same one.
const tipFile = ".scratch_tip_shown"

// FirstScratch reports, to one caller ever on a root, that a scratch workspace is being used for the first time.
func (r *Root) FirstScratch() bool {
	f, err := r.fs.OpenFile(tipFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
