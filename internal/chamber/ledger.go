package chamber

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kind says which file a ledger is about.
type Kind string

// The two kinds of file.
const (
	OnStore Kind = "store"
	OnBoard Kind = "board"
)

// Ledger is what one process intends to write and what was acknowledged to it, in a file that is synced before the
// write and after it.
type Ledger struct {
	file   *os.File
	prefix string
	n      int
}

// newLedger makes the ledger of this process. Tokens are words of letters and digits: a search index takes one as one.
func newLedger(dir string, kind Kind, tag string) (*Ledger, error) {
	name := fmt.Sprintf("%s-%s-%d.ledger", kind, tag, os.Getpid())
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make ledger: %w", err)
	}
	return &Ledger{file: file, prefix: fmt.Sprintf("TK%sx%dx", tag, os.Getpid())}, nil
}

// Intend makes count tokens for rows that are about to be written to a session.
func (l *Ledger) Intend(session string, count int) ([]string, error) {
	var lines strings.Builder
	tokens := make([]string, count)
	for i := range tokens {
		l.n++
		tokens[i] = fmt.Sprintf("%s%d", l.prefix, l.n)
		fmt.Fprintf(&lines, "I %s %s %d\n", tokens[i], session, l.n)
	}
	return tokens, l.append(lines.String())
}

// Ack notes that the rows were acknowledged.
func (l *Ledger) Ack(tokens []string) error {
	return l.append("A " + strings.Join(tokens, "\nA ") + "\n")
}

func (l *Ledger) append(lines string) error {
	_, err := l.file.WriteString(lines)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

func (l *Ledger) close() error { return l.file.Close() }

// entry is one token of all ledgers of a kind.
type entry struct {
	session string
	acked   bool
}

// readLedgers gives all tokens of a kind. A last line without its end is one that was being written when its process
// was killed: nothing was written to the store for it yet.
func readLedgers(dir string, kind Kind) (map[string]entry, error) {
	names, err := filepath.Glob(filepath.Join(dir, string(kind)+"-*.ledger"))
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for _, name := range names {
		if err := readLedger(name, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readLedger(path string, into map[string]entry) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // the end, or a line that was cut off
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "I":
			into[words[1]] = entry{session: words[2]}
		case len(words) == 2 && words[0] == "A":
			e := into[words[1]]
			e.acked = true
			into[words[1]] = e
		default:
			return fmt.Errorf("read ledger %s: line %q is not one", path, line)
		}
	}
}
