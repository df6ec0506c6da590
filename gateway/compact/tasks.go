package compact

import (
	"strings"

	"gatewayd/sessiondb"
)

// todoTool is the tool whose last result is the whole list of what is to be done. Its results are never made stubs of: the tool
// itself reads its list there.
const todoTool = "todo"

const tasksMost = 7000 // characters, which is all of it

// Tasks is the list of what is to be done, as it stood when it was last shown, if that goes with the folded rows. redact may be
// nil.
func (f Fold) Tasks(redact func(string) string) string {
	if hasTasks(f.rows[f.to:]) != "" {
		return ""
	}
	list := hasTasks(f.Folded())
	if list == "" {
		return ""
	}
	list = "The list of tasks, as it was last shown:\n" + shorten(list, tasksMost)
	if redact != nil {
		list = redact(list)
	}
	return list
}

func hasTasks(rows []sessiondb.Message) (list string) {
	for _, m := range rows {
		if m.Role == "tool" && m.ToolName == todoTool && !isStub(m) && strings.HasPrefix(m.Content, "{") { // a refusal is no list
			list = m.Content
		}
	}
	return list
}
