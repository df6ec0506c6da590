package worker

import (
	"io"
	"regexp"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
)

// A Hermes worker prints its exit code as its last line, for a dispatcher that could not wait for it.
var trailer = regexp.MustCompile(`(?m)^\[kanban-worker-exit\] rc=(-?\d{1,4})\s*$`)

// TrailerCode finds that line in the end of a log.
func TrailerCode(tail string) (code int, ok bool) {
	all := trailer.FindAllStringSubmatch(tail, -1)
	if len(all) == 0 {
		return 0, false
	}
	code, err := strconv.Atoi(all[len(all)-1][1])
	return code, err == nil
}

// lastWord is how our own agent says, as the last line of its log, why its card is not ended.
var lastWord = regexp.MustCompile(`(?m)^\[the card is not ended\] (.*)$`)

// LastWord is that line.
func LastWord(why string) string {
	return "[the card is not ended] " + strings.Join(strings.Fields(why), " ") + "\n"
}

// Why is what a worker has said of its end in so many words; empty of one that has not.
func Why(tail string) string {
	all := lastWord.FindAllStringSubmatch(tail, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

const (
	tailBytes  = 4000
	lastOutput = 400
)

// readTail reads the end of a log from an offset on.
func readTail(log io.ReaderAt, from, size int64) string {
	from = max(from, size-tailBytes)
	data, _ := io.ReadAll(io.NewSectionReader(log, from, size-from))
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// LastOutput is what a person should see of it: why the worker ended, where it has said so; else the last 400 characters, without the
// trailer.
func LastOutput(tail string) string {
	if why := Why(tail); why != "" && !mutation.On("card-has-the-log-for-words") {
		return why
	}
	text := strings.TrimSpace(trailer.ReplaceAllString(tail, ""))
	if len(text) > lastOutput {
		text = strings.ToValidUTF8(text[len(text)-lastOutput:], "")
	}
	return text
}

// Summary is the last line of the output, for a command whose exit code completes its card.
func Summary(tail string) string {
	lines := strings.Split(LastOutput(tail), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
