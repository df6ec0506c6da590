package gateway

import "context"

// Compress asks for a compaction by hand.
type Compress struct {
	Here    int    // keep the last so many exchanges as they are and fold what is before them; 0: the configured tail
	Topic   string // what the summary should dwell on
	Preview bool   // say what would be done, and do nothing
}

// Compressed says what became of it.
type Compressed struct{ Status string }

// makeRoom is asked before each request, never between a call and its last result. It may fold rows away and take the new
// transcript into the turn; an exit says that the conversation cannot go on.
func (t *turn) makeRoom() *exit { return nil }

// overflowed is asked when the model said that a request does not fit. It reports whether there is room now, so that the
// request is worth another try.
func (t *turn) overflowed(error) bool { return false }

// rolled is called when an answer's row is stored and before the answer is handed out.
func (t *turn) rolled() {}

// Compress folds the older part of a conversation into a summary, in its turn behind those that run. It blocks.
func (g *Gateway) Compress(context.Context, string, Compress) (Compressed, error) {
	return Compressed{Status: "nothing_to_do"}, nil
}
