package tool

import (
	"path"
	"slices"
	"strings"

	"gatewayd/gateway/tool/sh"
)

// runVariables hold what other programs, or the shell itself, run.
var runVariables = []string{
	"PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV", "PAGER", "MANPAGER", "GIT_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
	"GIT_SSH_COMMAND", "GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "LESSOPEN", "LESSCLOSE", "RSYNC_RSH", "MAKEFLAGS",
}

// runOptions begin a word whose rest a program runs as a command, by the program.
var runOptions = map[string][]string{
	"git":   {"core.pager=", "core.editor=", "core.sshCommand=", "core.fsmonitor=", "diff.external=", "sequence.editor=", "core.askPass=", "--upload-pack=", "--receive-pack=", "--exec="},
	"tar":   {"--checkpoint-action=exec=", "--to-command=", "--use-compress-program=", "--rsh-command=", "--info-script="},
	"ssh":   {"ProxyCommand=", "LocalCommand=", "-oProxyCommand=", "-oLocalCommand=", "KnownHostsCommand="},
	"scp":   {"ProxyCommand=", "-oProxyCommand="},
	"sftp":  {"ProxyCommand=", "-oProxyCommand="},
	"rsync": {"--rsh=", "--rsync-path="},
	"vim":   {":!", "+!", "+:!", "!"},
	"vi":    {":!", "+!", "+:!", "!"},
	"ex":    {":!", "+!", "!"},
}

// handed gives the texts in a command's variables and words that will be run as commands.
func handed(c sh.Command) (texts []string) {
	assigned := c.Assigned
	words := (action{args: c.Words}).texts()
	if len(words) > 0 && slices.Contains([]string{"export", "declare", "typeset", "local", "readonly", "env", "sudo"}, path.Base(words[0])) {
		assigned = append(slices.Clone(assigned), words[1:]...)
	}
	for _, word := range assigned {
		if name, value, ok := strings.Cut(word, "="); ok && slices.Contains(runVariables, name) {
			texts = append(texts, value)
		}
	}
	if len(words) == 0 {
		return texts
	}
	options := runOptions[path.Base(words[0])]
	for _, word := range words[1:] {
		if name, value, ok := strings.Cut(word, "=!"); ok && strings.HasPrefix(name, "alias.") {
			texts = append(texts, value)
		}
		for _, option := range options {
			if value, ok := strings.CutPrefix(word, option); ok {
				texts = append(texts, value)
			}
		}
	}
	return texts
}
