package terminal

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"
)

// Options are what a Terminal is made of. In and Out are terminals.
type Options struct {
	In, Out *os.File
	Environ []string // TERM is read of it
	Palette Palette
	History *History // nil: nothing is kept

	// Complete gives the ways to go on with a line, when Tab is pressed. It may take its time, within ctx; nil: nothing is completed.
	Complete func(ctx context.Context, line string) []Choice
}

// completeBound is how long completions are waited for.
const completeBound = 2 * time.Second

// Kind says what a person did.
type Kind int

// The kinds.
const (
	Line      Kind = iota // Text was typed and Enter pressed
	Interrupt             // Ctrl-C, with nothing in the line or while the frame is Busy
	Leave                 // Ctrl-D in an empty line, or the terminal is gone
	Resized               // the terminal has Width columns now
)

// Input is something that a person did.
type Input struct {
	Kind  Kind
	Text  string
	Width int
	Err   error // the line could not be kept in the history
}

// Frame is what is to be seen from now on.
type Frame struct {
	Above  []string // printed for good, each at most one row
	Rows   []string // painted above the line that is edited, in place of those before
	Prompt string   // before the line that is edited
	Busy   bool     // something runs that Ctrl-C stops, whatever is in the line
}

// Terminal is a terminal in use. Its methods may be called from any goroutine while Use runs; what is shown comes in the order of the
// calls of one goroutine.
type Terminal struct {
	options Options
	model   *model
	program *tea.Program
	inputs  *queue
	width   int // at the start
	height  int
}

// Open looks at a terminal. Nothing changes before Use.
func Open(o Options) (*Terminal, error) {
	width, height, err := term.GetSize(int(o.Out.Fd()))
	if err != nil {
		return nil, err
	}
	if o.History == nil {
		o.History = &History{}
	}
	t := &Terminal{options: o, inputs: newQueue(), width: usable(width, 80), height: usable(height, 24)}
	t.model = &model{
		Terminal: t, editor: newEditor(o.History, o.Palette), prompt: "> ",
		screen: screen{out: o.Out, width: t.width, height: t.height},
	}
	t.program = tea.NewProgram(t.model, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutRenderer(), tea.WithoutSignalHandler())
	return t, nil
}

// usable is a size that a terminal tells, or the usual one where it tells none.
func usable(n, usual int) int {
	if n <= 1 {
		return usual
	}
	return n
}

// Width is how many columns the terminal had when it was opened; Resized tells of changes.
func (t *Terminal) Width() int { return t.width }

// Inputs gives what the person does, in order. Nothing is lost when nobody listens for a while.
func (t *Terminal) Inputs() <-chan Input { return t.inputs.out }

// Show prints and paints.
func (t *Terminal) Show(f Frame) { t.program.Send(f) }

// Close ends Use, after what was shown before.
func (t *Terminal) Close() { t.program.Quit() }

// Use takes keys and paints until Close, the end of ctx, or the loss of the terminal; then the terminal is as it was before, with the
// cursor on a row of its own.
func (t *Terminal) Use(ctx context.Context) error {
	restore, err := makeRaw(t.options.In)
	if err != nil {
		return err
	}
	defer t.inputs.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go t.signals(ctx)
	go func() {
		<-ctx.Done()
		t.program.Quit()
	}()
	_, err = t.options.Out.WriteString(pasteOn)
	if err == nil {
		_, err = t.program.Run()
	}
	t.model.end()
	restore()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil
	}
	return err
}

// Bracketed paste: the terminal marks what is pasted, so that its newlines are not Enter.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// resized and continued are what signals tell the model.
type (
	resized   struct{ width, height int }
	continued struct{}
)

// signals tells of changes of the terminal until ctx ends.
func (t *Terminal) signals(ctx context.Context) {
	heard := make(chan os.Signal, 4)
	signal.Notify(heard, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(heard)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-heard:
			if s == syscall.SIGCONT {
				_, _ = makeRaw(t.options.In) // whoever had it meanwhile left it as it likes it
				t.program.Send(continued{})
			}
			if width, height, err := term.GetSize(int(t.options.Out.Fd())); err == nil {
				t.program.Send(resized{usable(width, 80), usable(height, 24)})
			}
		}
	}
}
