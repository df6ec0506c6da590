package sqlite

import "gatewayd/internal/volume"

// noWAL says why WAL must not be used on a file system type, and what the person can do; "" is fine.
func noWAL(fstype string) (reason, remedy string) { return volume.OfType(fstype).NoWAL(fstype) }
