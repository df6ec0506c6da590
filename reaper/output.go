package reaper

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// outputLimit is far above what git, systemctl or a version probe say.
	outputLimit = 1 << 20
	// outputDeadline ends a probe that hangs when its caller set no bound.
	outputDeadline = time.Minute
)

// ErrOutputLimit says that a command said more than Output keeps; what it kept is returned with it.
var ErrOutputLimit = errors.New("output is longer than 1 MiB")

// Output runs a short command to its end and gives what it wrote to stdout and stderr. A command that ran and failed
// is no error here: the Record says how it ended. When the context ends first, the command is ended with its tree
// and the context's cause is returned. An empty ID gets a fresh one; Lifetime and Output of the Spec are not used.
// The record is not kept.
func (r *Reaper) Output(ctx context.Context, spec Spec) ([]byte, Record, error) {
	spec.ID = cmp.Or(spec.ID, "cmd-"+strings.ToLower(rand.Text()))
	spec.Lifetime, spec.Deadline = EndsWithDaemon, cmp.Or(spec.Deadline, outputDeadline)
	var out limited
	spec.Output = &out
	cmd, err := newCommand(spec, r.store.dir)
	if err != nil {
		return nil, Record{}, err
	}
	cmd.Sync = false // nobody will look for it after a loss of power
	p, err := r.start(ctx, cmd, spec)
	if err != nil {
		return nil, Record{}, err
	}
	stopped := context.AfterFunc(ctx, func() { p.Stop(cmd.Grace) })
	record := p.Record()
	defer r.forgetQuietly(p.store, p.id)
	switch {
	case !stopped() && record.Reason == Stopped:
		return out.buf.Bytes(), record, fmt.Errorf("run %s: %w", spec.Argv[0], context.Cause(ctx))
	case out.over:
		return out.buf.Bytes(), record, fmt.Errorf("run %s: %w", spec.Argv[0], ErrOutputLimit)
	}
	return out.buf.Bytes(), record, nil
}

// limited keeps the beginning.
type limited struct {
	buf  bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := outputLimit - l.buf.Len()
	l.over = l.over || len(p) > room
	l.buf.Write(p[:min(len(p), room)])
	return len(p), nil
}
