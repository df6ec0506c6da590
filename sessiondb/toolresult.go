package sessiondb

import (
	"slices"
	"strings"
)

// Kinds of results of tools. A result without a kind is what the tool answered.
const (
	KindFailed      = "failed"      // the tool says that it failed, or was refused
	KindInterrupted = "interrupted" // the call was cut short, or kept from starting
	KindRepair      = "repair"      // its process died; what it did is as far known as the text says
)

// wordsOfFailure are how a result begins that failed, in rows from before their kind was kept.
var wordsOfFailure = []string{"error:", `{"error":`, "[not run", "[no result was recorded", "[the process that ran this ended before"}

// ResultFailed reports whether a call came to nothing, or to something that nobody knows: by the kind of its result, and for rows from
// before it was kept by how their text begins. A result of today without a kind that begins with such words is taken for one of those.
func ResultFailed(kind, begins string) bool {
	switch kind {
	case KindFailed, KindInterrupted, KindRepair:
		return true
	case "":
		return slices.ContainsFunc(wordsOfFailure, func(w string) bool { return strings.HasPrefix(begins, w) })
	}
	return false
}
