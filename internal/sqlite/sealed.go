package sqlite

// Sealed lets do read a database that nobody writes, without making anything beside it. Nothing of the schema is run: it
// is for a file that a stranger made, before this package opens it as its own. A -wal beside it is not read.
func Sealed(path string, do func(*Conn) error) error { return onSealed(path, do) }
