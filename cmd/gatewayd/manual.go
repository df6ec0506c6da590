package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (c *cli) manualVerb() *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Short: "Write the manual pages and the completions of shells into a directory", Args: exactly(1),
		Long: "Makes DIR/man1 with a page for each command, and DIR/completions with what bash, zsh, fish and PowerShell read: where each belongs is in docs/release.md.",
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := manual(cmd.Root())
			if err != nil {
				return err
			}
			for name, text := range files {
				path := filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, text, 0o644); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.std.out, "wrote %s into %s\n", many(len(files), "file"), args[0])
			return nil
		},
	}
}

// manual is every page and every completion by its name below a directory. The same program makes the same bytes.
func manual(root *cobra.Command) (map[string][]byte, error) {
	files := map[string][]byte{}
	pages(root, files)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"gatewayd":      func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) }, // bash-completion looks for the program's name
		"_gatewayd":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"gatewayd.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"gatewayd.ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return nil, fmt.Errorf("write the completion %s: %w", name, err)
		}
		files["completions/"+name] = text.Bytes()
	}
	return files, nil
}

func pages(cmd *cobra.Command, files map[string][]byte) {
	if cmd.Hidden {
		return
	}
	files["man1/"+pageName(cmd)+".1"] = page(cmd)
	for _, sub := range cmd.Commands() {
		pages(sub, files)
	}
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is a command's manual page. It has no date, so that it changes when the command does.
func page(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	cmd.InitDefaultHelpFlag()
	fmt.Fprintf(&b, ".TH %s 1 \"\" gatewayd \"gatewayd manual\"\n", strings.ToUpper(pageName(cmd)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", pageName(cmd), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(cmd.Long))
	}
	flagSection(&b, "OPTIONS", cmd.NonInheritedFlags())
	flagSection(&b, "OPTIONS OF EACH COMMAND", cmd.InheritedFlags())
	var also []string
	if cmd.HasParent() {
		also = append(also, pageName(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			also = append(also, pageName(sub))
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n")
		for i, name := range also {
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), map[bool]string{true: ",", false: ""}[i < len(also)-1])
		}
	}
	return b.Bytes()
}

func flagSection(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR \\fI%s\\fR\n%s\n", roff(name), roff(kind), roff(usage))
	})
}

// roff writes a text so that it is shown as it is.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n.br\n")
}
