package sqlite

// childMain runs the test binary as another process when the environment says so.
func childMain() bool { return false }
