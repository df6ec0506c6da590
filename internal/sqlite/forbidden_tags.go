//go:build sqlite3_flock || sqlite3_dotlk

package sqlite

// These tags choose lock protocols that stock SQLite cannot see: two programs would write one file at once.
// The undefined name below stops such a build.
var _ = buildTagsSqlite3FlockAndDotlkCorruptSharedFiles
