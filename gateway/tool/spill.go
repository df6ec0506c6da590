package tool

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// Bounds of what results may take in a request, in characters.
const (
	MaxTurn     = 200_000 // of all results of one turn together
	leastResult = 8_000   // floors for small windows: less is of no use
	leastTurn   = 16_000
	previewSize = 1_500 // of a result that is kept in a file instead

	charsPerToken = 4 // a rough measure that errs towards room
)

// Budget is the room that results may take.
type Budget struct{ Result, Turn int }

// BudgetFor scales the bounds to a context window in tokens: 15 per cent of it for one result, 30 for a turn. 0 is an unknown
// window and gets the full bounds.
func BudgetFor(window int) Budget {
	if window <= 0 {
		return Budget{MaxResult, MaxTurn}
	}
	chars := min(window, MaxTurn) * charsPerToken // MaxTurn tokens are far above the bounds already
	return Budget{
		Result: min(max(chars*15/100, leastResult), MaxResult),
		Turn:   min(max(chars*30/100, leastTurn), MaxTurn),
	}
}

// Room is what is left of a budget in one turn. It is safe for concurrent use.
type Room struct {
	budget Budget
	spill  *Spill
	mu     sync.Mutex
	left   int
}

// NewRoom begins a turn. Without a spill, what does not fit is cut and lost.
func NewRoom(budget Budget, spill *Spill) *Room {
	return &Room{budget: budget, spill: spill, left: budget.Turn}
}

// Narrow takes the bounds of a smaller budget from here on: a model with less room has come into the turn. What was given stays given,
// and a larger budget changes nothing.
func (r *Room) Narrow(budget Budget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given := r.budget.Turn - r.left
	r.budget = Budget{Result: min(r.budget.Result, budget.Result), Turn: min(r.budget.Turn, budget.Turn)}
	r.left = r.budget.Turn - given
}

// Left is what the next result may take: Call.Room.
func (r *Room) Left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.budget.Result, max(r.left, previewSize))
}

// Fit gives a result as it goes into a row and to the model. One that is larger than its bound, or than what is left in this
// turn, is kept in a file of its session and stands in the row as its beginning and its end, with the file's path. A page of a
// file and a list that are read back from their rows are never kept elsewhere: their tools page and bound themselves.
func (r *Room) Fit(call Call, content string) string {
	limit := r.Left()
	if size := utf8.RuneCountInString(content); size > limit {
		content = r.shorten(call, content, size, limit)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left -= utf8.RuneCountInString(content)
	return content
}

func (r *Room) shorten(call Call, content string, size, limit int) string {
	switch {
	case call.Name == todoName:
		return content
	case call.Name == readFileName || r.spill == nil:
		return Clip(content, limit)
	}
	preview := Clip(content, previewSize)
	path, err := r.spill.keep(call, content)
	if err != nil {
		return preview + fmt.Sprintf("\n[the whole result, %d characters, could not be kept: %v]", size, err)
	}
	return preview + fmt.Sprintf("\n[the whole result, %d characters, is in %s; read_file pages through it]", size, path)
}
