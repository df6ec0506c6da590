package sqlite

import "fmt"

// The file systems on which WAL cannot work, because its index is shared memory: two kernels do not see each
// other's mapped pages, and nothing reports it, so the pragma's own error would come too late or never.
var (
	crossVMTypes = set("virtiofs", "fuse.virtiofs", "9p", "9p2000", "9p2000.l", "9p2000.u",
		"vboxsf", "fuse.vmhgfs-fuse", "prl_fs", "drvfs", "fuse.osxfs", "fuse.grpcfuse")
	networkTypes = set("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "ceph",
		"fuse.ceph", "glusterfs", "fuse.glusterfs", "afs", "lustre", "gfs2", "ocfs2")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// noWAL says why WAL must not be used on a file system type, and what the person can do; "" is fine.
func noWAL(fstype string) (reason, remedy string) {
	switch {
	case crossVMTypes[fstype]:
		return fmt.Sprintf("%s is shared between two kernels, where WAL loses rows unseen", fstype),
			"use a native volume instead of a bind mount from the host"
	case networkTypes[fstype]:
		return fmt.Sprintf("%s is a network file system, where WAL loses rows unseen", fstype),
			"use a local disk; if only this machine writes, set database.journal_mode_force: wal"
	}
	return "", ""
}
