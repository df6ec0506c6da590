package config

import "time"

// Tools is what the model may do to this machine.
type Tools struct {
	// Terminal is deny, ask (what is dangerous waits for a person), ask-all (everything does) or allow.
	Terminal string `yaml:"terminal" default:"deny" oneof:"deny ask ask-all allow"`
	// ApprovalTimeout is how long a person has to answer; a call that nobody approved is denied. It is less than what a turn
	// gives all calls of one answer together.
	ApprovalTimeout time.Duration `yaml:"approval_timeout" default:"60s" min:"1s" max:"5m"`
	// Allow lists what nobody is asked about: rules, commands in which * stands for any text, and tools.
	Allow []string `yaml:"allow"`
	// Files is whether files may be written and patched, in the words of Terminal. Reading below the working directory is always free.
	Files string `yaml:"files" default:"deny" oneof:"deny ask ask-all allow"`
	// TerminalTimeout ends one command.
	TerminalTimeout time.Duration `yaml:"terminal_timeout" default:"180s" min:"1s"`
	// BackgroundTimeout ends a command in the background; one that was asked for with a timeout of its own has that.
	BackgroundTimeout time.Duration `yaml:"background_timeout" default:"24h" min:"1s"`
	// BackgroundMax commands in the background at a time for one conversation; all together may have four times as many.
	BackgroundMax int `yaml:"background_max" default:"16" min:"1" max:"1000"`
	// OutputMaxBytes of a command are shown to the model; the middle is dropped.
	OutputMaxBytes int `yaml:"output_max_bytes" default:"50000" min:"1000"`
	// Workdir is where commands run and files are; empty is the home's "workspace" directory.
	Workdir string `yaml:"workdir" kind:"path"`
	// WriteRoot is the directory below which files may be written; empty is where the turn works. It may be read, too.
	WriteRoot string `yaml:"write_root" kind:"path"`
	// SpillMaxAge and SpillMaxBytes bound the results that are too large for a conversation and kept in files of the home.
	SpillMaxAge   time.Duration `yaml:"spill_max_age" default:"168h" min:"1m"`
	SpillMaxBytes int64         `yaml:"spill_max_bytes" default:"268435456" min:"1048576"`
}
