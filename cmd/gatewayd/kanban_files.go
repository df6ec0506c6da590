package main

import (
	"context"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
)

func (v *boardVerbs) fileVerbs() []*cobra.Command {
	return []*cobra.Command{v.attachVerb(), v.attachmentsVerb(), v.forPeople(v.attachRemoveVerb()), v.attachGetVerb(), v.forPeople(v.gcVerb())}
}

func (v *boardVerbs) attachVerb() *cobra.Command {
	var name, kind string
	cmd := v.readVerb(&cobra.Command{Use: "attach CARD FILE", Short: "Attach a file to a card (-: standard input)", Args: exactly(2), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			if err := h.actor().May(cmd.Name(), args[0]); err != nil {
				return err
			}
			file, close, err := v.toAttach(args[1])
			if err != nil {
				return err
			}
			defer close()
			n := kanban.NewAttachment{Filename: name, ContentType: kind, By: h.speaker(), Run: h.actor().Fence(args[0])}
			if n.Filename == "" {
				n.Filename = filepath.Base(args[1])
			}
			if n.ContentType == "" {
				n.ContentType = mime.TypeByExtension(filepath.Ext(n.Filename))
			}
			a, err := b.Attach(ctx, args[0], n, file)
			if err != nil {
				return err
			}
			return v.emit(a, func(w io.Writer) { fmt.Fprintf(w, "attached %s to %s as %d\n", line(a.Filename), line(args[0]), a.ID) })
		})
	}})
	cmd.Flags().StringVar(&name, "name", "", "what to call it (default: as the file)")
	cmd.Flags().StringVar(&kind, "content-type", "", "what it is (default: by its ending)")
	return cmd
}

// toAttach opens what is attached. A directory or a FIFO is no file.
func (v *boardVerbs) toAttach(path string) (io.Reader, func(), error) {
	if path == "-" {
		return v.std.in, func() {}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, unreadable("file "+path, "name a file that can be read", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, usagef("%s is %s, not a file", path, kindOfFile(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, unreadable("file "+path, "name a file that can be read", err)
	}
	return f, func() { _ = f.Close() }, nil
}

func (v *boardVerbs) attachmentsVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{Use: "attachments [CARD]", Short: "List a card's files", Args: between(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
			card, err := h.card(args)
			if err != nil {
				return err
			}
			list, err := b.Attachments(ctx, card)
			if err != nil {
				return err
			}
			v.none(len(list), "card %s has no files", card)
			return v.emit(append([]kanban.Attachment{}, list...), func(w io.Writer) {
				table(w, func(row func(...any)) {
					for _, a := range list {
						row(a.ID, a.Filename, a.Size, a.ContentType, epoch(a.CreatedAt), a.StoredPath)
					}
				})
			})
		})
	}})
}

// onAttachment makes a verb whose first argument is the number of an attachment.
func (v *boardVerbs) onAttachment(cmd *cobra.Command, do func(ctx context.Context, h house, b *kanban.Board, id int64, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id <= 0 {
			return usagef("%q is not the number of an attachment; `gatewayd kanban attachments CARD` lists them", args[0])
		}
		return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error { return do(ctx, h, b, id, args[1:]) })
	}
	return cmd
}

func (v *boardVerbs) attachRemoveVerb() *cobra.Command {
	return v.onAttachment(&cobra.Command{Use: "attach-rm NUMBER", Short: "Take a file off its card", Args: exactly(1)},
		func(ctx context.Context, h house, b *kanban.Board, id int64, _ []string) error {
			if err := b.RemoveAttachment(ctx, id, h.speaker()); err != nil {
				return err
			}
			fmt.Fprintf(v.std.out, "removed attachment %d\n", id)
			return nil
		})
}

func (v *boardVerbs) attachGetVerb() *cobra.Command {
	return v.onAttachment(&cobra.Command{Use: "attach-get NUMBER", Short: "Print a file of a card", Args: exactly(1)},
		func(ctx context.Context, _ house, b *kanban.Board, id int64, _ []string) error {
			a, f, err := b.OpenAttachment(ctx, id)
			if err != nil {
				return err
			}
			defer f.Close()
			if isTerminal(v.std.out) {
				return usagef("%s would go to the terminal; send it to a file: > %s", line(a.Filename), strconv.Quote(a.Filename))
			}
			_, err = io.Copy(v.std.out, f)
			return err
		})
}
