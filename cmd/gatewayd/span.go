package main

import (
	"fmt"
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
