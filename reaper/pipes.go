package reaper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"gatewayd/internal/problem"
)

// Pipes are the standard streams of a child that is spoken with, as this process holds them. They are the caller's to close; Out and
// Err are at their end when nobody of the tree can write to them any more.
type Pipes struct {
	In  io.WriteCloser // its standard input
	Out io.ReadCloser  // its standard output
	Err io.ReadCloser  // its standard error
}

// Close closes all three.
func (p Pipes) Close() error { return errors.Join(p.In.Close(), p.Out.Close(), p.Err.Close()) }

// pipedWord tells a keeper at its start that its child's input and errors are the two descriptors behind the control socket.
const pipedWord = "piped"

const (
	pipedInFD  = controlFD + 1
	pipedErrFD = controlFD + 2
)

// StartPiped is Start for a child whose standard streams the caller holds: a server that is spoken with. It ends with the daemon.
// Output and LogPath of the Spec are not used.
func (r *Reaper) StartPiped(ctx context.Context, spec Spec) (*Process, Pipes, error) {
	spec.Lifetime, spec.Output, spec.LogPath = EndsWithDaemon, nil, ""
	cmd, err := newCommand(spec, r.store.dir)
	if err != nil {
		return nil, Pipes{}, err
	}
	cmd.Piped, cmd.Sync = true, false
	p := newProcess(r, cmd.ID)
	p.lifetime = cmd.Lifetime
	if err := r.enter(p); err != nil {
		return nil, Pipes{}, err
	}
	defer close(p.ready)
	pipes, err := r.beginPiped(ctx, p, cmd)
	if err != nil {
		r.leave(p)
		return nil, Pipes{}, err
	}
	return p, pipes, nil
}

// beginPiped starts a keeper of its own: a warm one has been started without these pipes.
func (r *Reaper) beginPiped(ctx context.Context, p *Process, cmd command) (Pipes, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return Pipes{}, fmt.Errorf("make pipe: %w", err)
	}
	defer stdin.Close()
	errs, stderr, err := os.Pipe()
	if err != nil {
		in.Close()
		return Pipes{}, fmt.Errorf("make pipe: %w", err)
	}
	defer stderr.Close()
	keeper, err := r.launch(stdin, stderr)
	if err != nil {
		in.Close()
		errs.Close()
		return Pipes{}, startError(cmd.Argv[0], &problem.Error{
			Kind: problem.Unavailable, Thing: "keeper of " + quote(cmd.ID), What: "could not be started", Err: err,
			Fate: "nothing was started", Remedy: "look at the limits of processes and memory",
		})
	}
	pipes := Pipes{In: in, Out: keeper.output, Err: errs}
	keeper.output = nil // the caller's from here on
	if err := p.hand(ctx, keeper, cmd, nil); err != nil {
		pipes.Close()
		return Pipes{}, err
	}
	return pipes, nil
}
