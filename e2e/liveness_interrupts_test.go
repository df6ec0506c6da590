package e2e

import (
	"testing"

	"gatewayd/internal/fakellm"
)

// Where no timeout would ever end a turn, an interrupt does, whatever the turn waits for.
func TestAnInterruptEndsATurnWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	together(t, interruptPlays(), func(p play) string { return p.name }, perform)
}

func interruptPlays() []play {
	return []play{
		{name: "interrupt_provider_hang", knobs: forever(), fault: always(fakellm.Hang{}), want: interrupted, during: func(p *playing) { p.asked(1); p.interrupt() }},
		{name: "interrupt_hung_tool", knobs: forever(), fault: oneTool(run("sleep 3600")), want: interrupted, during: func(p *playing) { p.running(); p.interrupt() }, between: nothingRuns},
		{name: "interrupt_endless_tool_loop", knobs: forever(), fault: endless, want: interrupted, during: func(p *playing) { p.asked(4); p.interrupt() }},
	}
}

// running waits until a command of the turn runs.
func (p *playing) running() {
	p.until("a command runs", func() bool { return len(commands(p.t, p.home)) > 0 })
}
