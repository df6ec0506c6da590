package api

import (
	"sync"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// recallMost bounds the answers that are kept: some hundred cards, which is what people and pages look at again and again.
const recallMost = 4 << 20 // bytes

// recall keeps what was read of boards, encoded, for as long as nobody has committed to the board since: then the same question has the same
// answer. It is for reads that are a function of the board's file alone. Nothing has to be told to it; the board's own change mark says
// whether an answer still holds, whichever process wrote.
type recall struct {
	mu    sync.Mutex
	of    map[string]recalled
	bytes int
}

type recalled struct {
	board *kanban.Board // another handle is another generation of the file
	stamp sqlite.Stamp
	body  encoded
}

// read gives the answer to a question about a board. The mark is taken before the board is read, so that a commit between the two costs a
// second reading and never a wrong answer.
func (k *recall) read(board *kanban.Board, question string, read func() (any, error)) (encoded, error) {
	stamp, err := board.File().Stamp()
	known := err == nil
	if kept, ok := k.find(question); ok && known && kept.board == board && (kept.stamp == stamp || mutation.On("answers-outlive-a-commit")) {
		return kept.body, nil
	}
	answer, err := read()
	if err != nil {
		return nil, err
	}
	body, err := encode(answer)
	if err == nil && known {
		k.keep(question, recalled{board, stamp, body})
	}
	return body, err
}

func (k *recall) find(question string) (recalled, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.of[question]
	return kept, ok
}

// keep forgets everything when there is too much: what is asked for often is soon there again.
func (k *recall) keep(question string, r recalled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes += len(r.body) - len(k.of[question].body)
	if k.of == nil || k.bytes > recallMost {
		k.of, k.bytes = map[string]recalled{}, len(r.body)
	}
	k.of[question] = r
}
