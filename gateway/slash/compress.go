package slash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// hereDefault is how many exchanges `/compress here` leaves as they are.
const hereDefault = 2

// compress is /compress [here N | topic] [--preview].
func (r *Runner) compress(ctx context.Context, c Context, line Line) (Reply, error) {
	ask, err := parseCompress(line)
	if err != nil {
		return Reply{}, err
	}
	done, err := r.Gateway.Compress(ctx, c.Session, ask)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		err = errNothing(line.Command, c.Session)
	}
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: compressed(done), Data: done}, nil
}

func parseCompress(line Line) (gateway.Compress, error) {
	var ask gateway.Compress
	var words []string
	for _, word := range strings.Fields(line.Args) {
		switch {
		case word == "--preview":
			ask.Preview = true
		case word == "--aggressive":
			return ask, errUsage(line.Command, "has no --aggressive: what would be folded then is what the model needs")
		case strings.HasPrefix(word, "--"):
			return ask, errUsage(line.Command, "does not know %.50q", word)
		default:
			words = append(words, word)
		}
	}
	if len(words) > 0 && strings.EqualFold(words[0], "here") && len(words) <= 2 {
		ask.Here = hereDefault
		if len(words) == 2 {
			n, err := strconv.Atoi(words[1])
			if err != nil || n < 1 {
				return ask, errUsage(line.Command, "wants how many exchanges stay as they are, 1 or more, not %.50q", words[1])
			}
			ask.Here = n
		}
		return ask, nil
	}
	ask.Topic = strings.Join(words, " ")
	return ask, nil
}

// compressed says what became of it, and says so honestly when nothing was gained.
func compressed(c gateway.Compressed) string {
	if c.Status == gateway.CompressPreview && c.Folded == 0 {
		return "There is nothing that could be folded now; nothing was changed."
	}
	var b strings.Builder
	b.WriteString(map[gateway.CompressStatus]string{
		gateway.CompressPreview: "This is what would be done; nothing was changed.", gateway.CompressDone: "Compressed.",
		gateway.CompressNothing: "There is nothing to compress.", gateway.CompressLockSkipped: "Another process works on this conversation; nothing was changed.",
		gateway.CompressFailed: "There is no summary; nothing was changed.", gateway.CompressNotStored: "It could not be stored; nothing was changed, and it may be repeated.",
	}[c.Status])
	if c.Folded > 0 {
		fmt.Fprintf(&b, " Folded: %s; kept as they are: %d.", count(c.Folded, "row"), c.Kept)
	}
	if c.RowsAfter > 0 || c.TokensAfter > 0 {
		fmt.Fprintf(&b, " Rows %d → %d, tokens %d → %d.", c.RowsBefore, c.RowsAfter, c.TokensBefore, c.TokensAfter)
	}
	if c.FallbackUsed {
		b.WriteString(" No model could be asked, so the summary is a list of what was said.")
	}
	if c.RefusedWouldGrow {
		b.WriteString(" The summary would have been no smaller than what it stands for.")
	}
	if c.DeadEnd {
		b.WriteString(" Compressing does not make this conversation smaller any more; /new begins another.")
	}
	if c.Reason != "" {
		b.WriteString(" " + c.Reason)
	}
	return b.String()
}
