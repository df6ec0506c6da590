package doctor

import (
	"context"
	"time"

	"gatewayd/config"
	"gatewayd/internal/volume"
)

// House is what is examined, and the few things that only the program around it can tell.
type House struct {
	Home   string
	Loaded config.Loaded // zero where Broken
	Broken error         // why the configuration cannot be read

	Databases []Database
	Listing   error  // why the boards cannot be listed
	Backups   string // directory
	Round     string // why the last round of them failed
	Volumes   []volume.Volume

	Version  string // of this program
	Revision string
	Units    []Unit
	Stop     time.Duration // the longest that the daemon takes to end
	User     string        // whose services must go on without a login

	// Daemon asks the running daemon. Its error says that it gave no answer.
	Daemon func(context.Context) (Running, error)
	// Model asks the server that answers, within the context.
	Model func(context.Context) (Model, error)
	// Lanes says of each configured lane whether its program is there.
	Lanes func() ([]Lane, error)
	// Run gives what a program prints, within the context.
	Run func(ctx context.Context, argv ...string) (string, error)

	Large bool // copy and check databases above a gigabyte, too
	Now   time.Time
}

// Running is what a daemon says of itself.
type Running struct {
	PID      int
	Version  string
	Revision string
	Stranded []string // paths of handles that could not be closed
	Troubles []string // the lines of /health/detailed that are not ok
}

// Model is what is known of who answers.
type Model struct {
	Name, URL string // URL is empty for the offline model
	How       string // it was chosen
	Window    int    // tokens
	From      string // who says so
	Asked     bool   // the server was asked
	Listed    bool   // it lists this model
	Took      time.Duration
}

// Lane is a configured lane.
type Lane struct {
	Name, Preset  string
	Missing       string // what is not there; empty is fine
	MissingRemedy string
}

// Unit is a place where the service may be installed, and what `gatewayd install` would write there.
type Unit struct {
	Path   string
	System bool
	Wanted []string // any of these is right
	Err    error    // why that cannot be told
}

var probes = []probe{
	{"config", lookConfig, true},
	{"home", lookHome, true},
	{"volume", lookVolumes, false},
	{"modes", lookModes, true},
	{"secrets", lookSecrets, false},
	{"disk", lookDisk, true},
	{"temporary", lookTemporary, true},
	{"clock", lookClock, true},
	{"lock", lookLock, true},
	{"daemon", lookDaemon, true},
	{"version", lookVersion, true},
	{"port", lookPort, false},
	{"handles", lookHandles, true},
	{"unit", lookUnit, false},
	{"stop timeout", lookStop, false},
	{"linger", lookLinger, false},
	{"model", lookModel, false},
	{"lane", lookLanes, false},
	{"sqlite3", lookSQLite, false},
	{"backups", lookBackups, false},
	{"boards", lookBoards, false},
}
