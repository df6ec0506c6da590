package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/gateway/keys"
)

// keysVerb is who may use the API and the page of this home, or of the daemon at --addr.
func (c *cli) keysVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Who may use the API and the page", Args: verbs, RunE: help,
		Long: "Keys have a name and scopes: read looks, chat talks, boards changes boards, admin does everything.\nThe home keeps hashes of them. A running daemon sees every change at once.",
	}
	cmd.AddCommand(c.listKeysVerb(), c.addKeyVerb(), c.removeKeyVerb(), c.rotateKeyVerb())
	return cmd
}

func (c *cli) listKeysVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "list", Short: "All keys, without their texts", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := c.ring(cmd.Context())
			if err != nil {
				return err
			}
			list, err := ring.list()
			if err != nil {
				return err
			}
			return c.emit(list, func(w io.Writer) { printKeys(w, list) })
		},
	})
}

func printKeys(w io.Writer, list []keys.Key) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no keys; the first start of the daemon makes one")
		return
	}
	table(w, func(row func(...any)) {
		row("NAME", "SCOPES", "MADE", "LAST USED", "ENDS", "ID")
		for _, k := range list {
			made := k.CreatedAt
			row(k.Name, keys.Names(k.Scopes), day(&made, ""), day(k.LastUsedAt, "never"), day(k.ExpiresAt, "never"), k.ID)
		}
	})
}

func day(at *time.Time, none string) string {
	if at == nil {
		return none
	}
	return at.Local().Format(time.DateTime)
}

func (c *cli) addKeyVerb() *cobra.Command {
	var scopes []string
	var expires string
	cmd := c.readVerb(&cobra.Command{
		Use: "add NAME --scope SCOPE", Short: "Make a key and print it, this once", Args: exactly(1),
		Example: "  gatewayd keys add open-webui --scope chat\n  gatewayd keys add ci --scope boards --expires 90d",
		RunE: func(cmd *cobra.Command, args []string) error {
			n := keys.New{Name: args[0]}
			var err error
			if n.Scopes, err = keys.ParseScopes(scopes); err != nil {
				return err
			}
			if n.Expires, err = keys.ParseExpiry(expires); err != nil {
				return err
			}
			return c.showNew(cmd.Context(), func(ring keyRing) (keys.Key, string, error) { return ring.add(n) })
		},
	})
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "read, chat, boards or admin; may be given several times")
	cmd.Flags().StringVar(&expires, "expires", "", "end the key after so long: 12h, 90d, 52w")
	return cmd
}

func (c *cli) rotateKeyVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "rotate NAME", Short: "Give a key a new text and print it, this once; the old one is over", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showNew(cmd.Context(), func(ring keyRing) (keys.Key, string, error) { return ring.rotate(args[0]) })
		},
	})
}

// showNew prints a key that was made: its text alone on the output, so that a script can take it, and the rest beside it.
func (c *cli) showNew(ctx context.Context, do func(keyRing) (keys.Key, string, error)) error {
	ring, err := c.changeRing(ctx)
	if err != nil {
		return err
	}
	key, token, err := do(ring)
	if err != nil {
		return err
	}
	return c.emit(map[string]any{"key": key, "text": token}, func(w io.Writer) {
		fmt.Fprintln(w, token)
		fmt.Fprintf(c.std.err, "key %s may %s and ends %s; it is shown this once\n", key.Name, keys.Names(key.Scopes), day(key.ExpiresAt, "never"))
	})
}

func (c *cli) removeKeyVerb() *cobra.Command {
	return c.readVerb(&cobra.Command{
		Use: "remove NAME", Short: "End a key, with its logins and what it has open", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := c.changeRing(cmd.Context())
			if err != nil {
				return err
			}
			key, err := ring.remove(args[0])
			if err != nil {
				return err
			}
			return c.emit(key, func(w io.Writer) { fmt.Fprintf(w, "removed %s\n", key.Name) })
		},
	})
}

// keyRing is where keys are: in a home, or at a daemon elsewhere.
type keyRing interface {
	list() ([]keys.Key, error)
	add(n keys.New) (keys.Key, string, error)
	rotate(name string) (keys.Key, string, error)
	remove(name string) (keys.Key, error)
}

// ring is the home's file, whether a daemon runs or not; with --addr the daemon there is asked.
func (c *cli) ring(ctx context.Context) (keyRing, error) {
	if c.addr != "" {
		cl, err := c.dial()
		return remoteRing{ctx, cl}, err
	}
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	if err := mustBeDir("home ", loaded.Home); err != nil {
		return nil, err
	}
	store, err := keys.Open(loaded.Home, nil)
	return localRing{store}, err
}

// changeRing is ring for a person.
func (c *cli) changeRing(ctx context.Context) (keyRing, error) {
	if err := c.isAPerson("a key"); err != nil {
		return nil, err
	}
	return c.ring(ctx)
}

type localRing struct{ store *keys.Store }

func (r localRing) list() ([]keys.Key, error)                    { return r.store.List(), nil }
func (r localRing) add(n keys.New) (keys.Key, string, error)     { return r.store.Add(n) }
func (r localRing) rotate(name string) (keys.Key, string, error) { return r.store.Rotate(name) }
func (r localRing) remove(name string) (keys.Key, error)         { return r.store.Remove(name) }

type remoteRing struct {
	ctx context.Context
	*client
}

// keyAnswer is what the API says of a key.
type keyAnswer struct {
	Key  keys.Key   `json:"key"`
	Keys []keys.Key `json:"keys"`
	Text string     `json:"text"`
}

func (r remoteRing) list() ([]keys.Key, error) {
	var a keyAnswer
	err := r.call(r.ctx, http.MethodGet, "/api/keys", nil, &a)
	return a.Keys, err
}

func (r remoteRing) add(n keys.New) (keys.Key, string, error) {
	body := map[string]any{"name": n.Name, "scopes": n.Scopes}
	if n.Expires > 0 {
		body["expires_in"] = int64(n.Expires / time.Second)
	}
	var a keyAnswer
	err := r.call(r.ctx, http.MethodPost, "/api/keys", body, &a)
	return a.Key, a.Text, err
}

func (r remoteRing) rotate(name string) (keys.Key, string, error) {
	var a keyAnswer
	err := r.call(r.ctx, http.MethodPost, "/api/keys/"+url.PathEscape(name)+"/rotate", nil, &a)
	return a.Key, a.Text, err
}

func (r remoteRing) remove(name string) (keys.Key, error) {
	var a keyAnswer
	err := r.call(r.ctx, http.MethodDelete, "/api/keys/"+url.PathEscape(name), nil, &a)
	return a.Key, err
}
