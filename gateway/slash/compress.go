package slash

import (
	"context"
	"errors"
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
	return Reply{Text: done.String(), Data: done}, nil
}

// parseCompress reads what follows the name: [up to] here [N], --keep N or -k N in their place, --preview or --dry-run, else a topic.
func parseCompress(line Line) (ask gateway.Compress, err error) {
	var words []string
	all := strings.Fields(line.Args)
	for i := 0; i < len(all); i++ {
		switch word := all[i]; {
		case word == "--preview", word == "--dry-run":
			ask.Preview = true
		case word == "--keep", word == "-k":
			if i++; i == len(all) {
				return ask, errUsage(line.Command, "wants a number after %s", word)
			}
			words = append([]string{"here", all[i]}, words...)
		case word == "--aggressive":
			return ask, errUsage(line.Command, "has no --aggressive: what would be folded then is what the model needs")
		case strings.HasPrefix(word, "--"):
			return ask, errUsage(line.Command, "does not know %.50q", word)
		default:
			words = append(words, word)
		}
	}
	if len(words) > 2 && strings.EqualFold(strings.Join(words[:3], " "), "up to here") {
		words = words[2:]
	}
	if len(words) == 0 || !strings.EqualFold(words[0], "here") || len(words) > 2 {
		ask.Topic = strings.Join(words, " ")
		return ask, nil
	}
	if ask.Here = hereDefault; len(words) == 2 {
		if ask.Here, err = strconv.Atoi(words[1]); err != nil || ask.Here < 1 {
			return ask, errUsage(line.Command, "wants how many exchanges stay as they are, 1 or more, not %.50q", words[1])
		}
	}
	return ask, nil
}
