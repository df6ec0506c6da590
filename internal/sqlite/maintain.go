package sqlite

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Operation is a kind of maintenance: work on a database that no caller's row asked for. Each one goes through
// admit, which is the one place that says no, and each has a row in the table of a test that runs it beside a live
// writer of another process, on a handle in quarantine and on a damaged copy.
type Operation string

const (
	OpCheckpoint    Operation = "checkpoint"     // moves the -wal into the database
	OpVacuum        Operation = "vacuum"         // writes the whole database anew, smaller
	OpOptimize      Operation = "optimize"       // refreshes the planner's statistics
	OpRebuild       Operation = "rebuild"        // builds a search index anew
	OpRepair        Operation = "repair"         // mends a damaged file
	OpPrune         Operation = "prune"          // deletes what is old
	OpBackup        Operation = "backup"         // a verified copy with a manifest, kept among a number of them
	OpRestore       Operation = "restore"        // puts a backup in a database's place
	OpSnapshot      Operation = "snapshot"       // one verified copy at a place of the caller's
	OpJournalChange Operation = "journal change" // from WAL to rollback mode or back
	OpMigration     Operation = "migration"      // brings the schema up to date
)

// Operations is the list of all of them.
var Operations = [...]Operation{
	OpCheckpoint, OpVacuum, OpOptimize, OpRebuild, OpRepair, OpPrune, OpBackup, OpRestore, OpSnapshot, OpJournalChange, OpMigration,
}

// maintenancePatience is what maintenance waits for a lock: it can come back later, a user's row cannot.
const maintenancePatience = 5 * time.Second

// Maintain is Write for a transaction of maintenance: the gate is asked before, and again when its turn comes. It
// refuses a handle in quarantine with a problem that names the operation and whose ClassOf is the reason.
func (f *File) Maintain(ctx context.Context, what Operation, op Op) error {
	if err := f.admit(what); err != nil {
		return err
	}
	do := op.Do
	op.Do = func(tx *Tx) error {
		if err := f.admit(what); err != nil {
			return err
		}
		return do(tx)
	}
	return f.Write(ctx, op)
}

// admit is the gate. What is kept in quarantine is evidence, and maybe the last copy of somebody's rows: nothing is
// moved, rewritten or copied as if it were good.
func (f *File) admit(what Operation) error {
	reason := f.Reason()
	switch {
	case reason == Healthy, what == OpVacuum && mutation.On("vacuum-in-quarantine"):
		return nil
	case reason == ReasonReadOnly && (what == OpBackup || what == OpSnapshot): // whole, and only of a newer program
		return nil
	}
	remedy := remedies[reason]
	if reason == ReasonCorrupt {
		remedy = RepairRemedy(f.opts.Label)
	}
	return &problem.Error{
		Kind: problem.Damaged, Thing: f.thing(), What: fmt.Sprintf("refuses %s, because its state is %q", what, reason),
		Fate: "it was left as it is", Remedy: remedy, Err: f.Quarantine(),
	}
}

var remedies = map[Reason]string{
	ReasonReplaced: "use the file that lies there now; see who copies over it",
	ReasonLost:     "see who deletes its -wal and -shm; it is opened anew once what was written is captured",
	ReasonReadOnly: "use the newer gatewayd that wrote it",
}

// maintain runs an operation on the writer's connection, in its turn among the writes and outside of any
// transaction. What finds the file locked is tried again for maintenancePatience.
func (f *File) maintain(ctx context.Context, what Operation, run func(*Conn) error) error {
	if err := f.admit(what); err != nil {
		return err
	}
	return f.writer.submit(ctx, &request{
		op: Op{Label: string(what)}, deadline: f.deadline(ctx, maintenancePatience),
		visit: func(c *Conn) error {
			if err := f.admit(what); err != nil {
				return err
			}
			if err := f.checkIdentity(); err != nil {
				return err
			}
			return run(c)
		},
	})
}

// analysisRows bounds how much of an index the planner's statistics look at: enough to tell a selective index from
// a bad one, and milliseconds on any size of file.
const analysisRows = 400

// Optimize refreshes the planner's statistics where SQLite thinks that it pays. It is bounded in time, writes little
// and can be run beside anybody.
func (f *File) Optimize(ctx context.Context) error {
	return f.maintain(ctx, OpOptimize, func(c *Conn) error {
		if _, err := c.pragma(fmt.Sprintf("analysis_limit=%d", analysisRows)); err != nil {
			return fmt.Errorf("optimize: %w", err)
		}
		if _, err := c.pragma("optimize"); err != nil {
			return fmt.Errorf("optimize: %w", err)
		}
		f.writer.wrote = true
		return nil
	})
}
