package reaper

import "gatewayd/internal/procfs"

// closeInherited closes what the daemon had itself inherited without close-on-exec (a socket that was handed to it
// at start, for one): a keeper outlives the daemon and would hold it. What Go opened is never without that mark.
func closeInherited() {
	keepFromChildren(controlFD)
	last := controlFD
	if isPiped() {
		keepFromChildren(pipedInFD)
		keepFromChildren(pipedErrFD)
		last = pipedErrFD
	}
	fds, err := procfs.Inherited()
	if err != nil {
		return
	}
	for _, fd := range fds {
		if fd > last {
			closeFD(fd)
		}
	}
}
