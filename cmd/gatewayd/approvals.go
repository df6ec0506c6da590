package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// approvalsVerb shows what waits for a person, and decides it.
func (c *cli) approvalsVerb() *cobra.Command {
	cmd := c.approvalsListVerb("approvals")
	cmd.Args = verbs
	cmd.Long = "A call of the model that is dangerous waits for a person when tools.terminal is ask. This lists the calls that wait; a call that\nnobody approves within tools.approval_timeout is denied."
	cmd.AddCommand(c.approvalsListVerb("list"), c.approveVerb(), c.denyVerb(), c.grantsVerb(), c.revokeVerb(), c.rulesVerb())
	return cmd
}

func (c *cli) approvalsListVerb(use string) *cobra.Command {
	all, session := false, ""
	cmd := c.readVerb(&cobra.Command{Use: use, Short: "What waits for your approval, or, with --all, what was ever asked", Args: exactly(0)})
	cmd.Flags().BoolVar(&all, "all", false, "what was decided, too: by whom and when")
	cmd.Flags().StringVar(&session, "session", "", "only of this conversation")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q := url.Values{"session": {session}}
		if all {
			q.Set("state", "all")
		}
		var answer struct {
			Approvals []gateway.Approval `json:"approvals"`
		}
		if err := c.ask(cmd.Context(), http.MethodGet, "/api/approvals?"+q.Encode(), nil, &answer); err != nil {
			return err
		}
		return c.emit(answer.Approvals, func(w io.Writer) { printApprovals(w, answer.Approvals) })
	}
	return cmd
}

func printApprovals(w io.Writer, list []gateway.Approval) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing waits for your approval")
		return
	}
	for i, a := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s  %s  %s in session %s, %s\n", a.ID, became(a), line(a.Tool), line(a.Session), a.CreatedAt.Local().Format("2006-01-02 15:04:05"))
		fmt.Fprintf(w, "  %s\n  because it %s\n", strings.ReplaceAll(text(a.Effect), "\n", "\n  "), line(a.Reason))
		if a.Pending() {
			fmt.Fprintf(w, "  gatewayd approvals approve %s [--session | --always], or deny %[1]s; denied by itself %s\n", a.ID, a.ExpiresAt.Local().Format("at 15:04:05"))
		}
	}
}

func became(a gateway.Approval) string {
	if a.Pending() {
		return "waits"
	}
	return fmt.Sprintf("%s (%s) by %s", a.State, line(a.Decision), line(a.DecidedBy))
}

func (c *cli) approveVerb() *cobra.Command {
	session, always := false, false
	cmd := c.readVerb(&cobra.Command{Use: "approve ID", Short: "Let a call run that waits for you", Args: exactly(1)})
	cmd.Flags().BoolVar(&session, "session", false, "and do not ask again in this conversation for what it touches")
	cmd.Flags().BoolVar(&always, "always", false, "and never ask again for what it touches, until that is revoked")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		choice := tool.ChoiceOnce
		switch {
		case session && always:
			return usagef("give one of --session and --always")
		case session:
			choice = tool.ChoiceSession
		case always:
			choice = tool.ChoiceAlways
		}
		return c.decide(cmd.Context(), args[0], choice)
	}
	return cmd
}

func (c *cli) denyVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "deny ID", Short: "Refuse a call that waits for you", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.decide(cmd.Context(), args[0], tool.ChoiceDeny)
		},
	})
}

func (c *cli) decide(ctx context.Context, id string, choice tool.Choice) error {
	if err := c.isAPerson("an approval"); err != nil {
		return err
	}
	var answer struct {
		Approval gateway.Approval `json:"approval"`
	}
	body := map[string]string{"decision": string(choice), "by": "cli " + c.speaker()}
	if err := c.ask(ctx, http.MethodPost, "/api/approvals/"+url.PathEscape(id), body, &answer); err != nil {
		return err
	}
	a := answer.Approval
	return c.emit(a, func(w io.Writer) {
		fmt.Fprintf(w, "%s is %s (%s)", a.ID, a.State, a.Decision)
		if choice == tool.ChoiceSession || choice == tool.ChoiceAlways {
			fmt.Fprintf(w, "; not asked again: %s", line(strings.Join(a.Rules, ", ")))
		}
		fmt.Fprintln(w)
	})
}

// isAPerson refuses a command of a conversation, or of a worker: what asks does not answer for whom it asks.
func (c *cli) isAPerson(thing string) error {
	loaded, err := c.load()
	if err == nil && (loaded.Session != "" || loaded.Worker != nil) {
		err = &problem.Error{
			Kind: problem.Denied, Thing: thing, What: "is a person's to give, and this is a command of a conversation or a worker",
			Fate: "nothing was decided", Remedy: "decide it in a terminal of your own",
		}
	}
	return err
}

func (c *cli) grantsVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "grants", Short: "What was approved for a conversation or for always", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer struct {
				Grants []sessiondb.Grant `json:"grants"`
			}
			if err := c.ask(cmd.Context(), http.MethodGet, "/api/grants", nil, &answer); err != nil {
				return err
			}
			return c.emit(answer.Grants, func(w io.Writer) {
				for _, g := range answer.Grants {
					where := "always"
					if g.Session != "" {
						where = "session " + line(g.Session)
					}
					fmt.Fprintf(w, "%-24s %s, since %s (%s)\n", line(g.Rule), where, g.CreatedAt.Local().Format(time.DateTime), line(g.Approval))
				}
				if len(answer.Grants) == 0 {
					fmt.Fprintln(w, "nothing is granted")
				}
			})
		},
	})
}

func (c *cli) revokeVerb() *cobra.Command {
	session := ""
	cmd := &cobra.Command{Use: "revoke RULE", Short: "Take back what was approved for always, or, with --session, for one conversation", Args: exactly(1)}
	cmd.Flags().StringVar(&session, "session", "", "the conversation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.isAPerson("an approval"); err != nil {
			return err
		}
		q := url.Values{"session": {session}, "by": {"cli " + c.speaker()}}
		if err := c.ask(cmd.Context(), http.MethodDelete, "/api/grants/"+url.PathEscape(args[0])+"?"+q.Encode(), nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(c.std.out, "%s is asked about again\n", line(args[0]))
		return nil
	}
	return cmd
}

func (c *cli) rulesVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "rules", Short: "Names of what is asked about, as tools.allow takes them", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			return c.emit(tool.Rules(), func(w io.Writer) { fmt.Fprintln(w, strings.Join(tool.Rules(), "\n")) })
		},
	})
}

// ask is one call of the daemon.
func (c *cli) ask(ctx context.Context, method, path string, body, out any) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	return cl.call(ctx, method, path, body, out)
}

// speaker is whom this command line speaks for, as far as its environment says.
func (c *cli) speaker() string {
	loaded, err := c.load()
	if err != nil {
		return ""
	}
	return loaded.Environ.Get("USER")
}
