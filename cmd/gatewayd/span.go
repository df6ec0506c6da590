package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"gatewayd/kanban"
)

// spanValue is a flag that takes a length of time as cards do: plain seconds, or 30s, 15m, 2h, 1d.
type spanValue time.Duration

func span(f *pflag.FlagSet, to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	f.Var((*spanValue)(to), name, usage)
}

func (s *spanValue) Set(text string) error {
	d, err := kanban.ParseSpan(text)
	*s = spanValue(d)
	return err
}

func (s *spanValue) String() string {
	if s == nil || *s == 0 {
		return ""
	}
	return fmt.Sprint(time.Duration(*s))
}

func (s *spanValue) Type() string { return "duration" }

// pace is a flag that says how often to look: seconds, also parts of one, or a length of time like 500ms.
type pace time.Duration

const fastest = 10 * time.Millisecond // more looks than that are a busy loop

func (p *pace) Set(text string) error {
	d, err := time.ParseDuration(text)
	if seconds, nan := strconv.ParseFloat(text, 64); nan == nil && seconds > 0 && seconds < 1e6 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d < fastest {
		return fmt.Errorf("write seconds (0.5) or a length of time (500ms), %v or more", fastest)
	}
	*p = pace(d)
	return nil
}

func (p *pace) String() string { return time.Duration(*p).String() }

func (p *pace) Type() string { return "duration" }
