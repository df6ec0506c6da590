package web

import (
	"bytes"

	"gatewayd/internal/mutation"
)

// faults are guards of the scripts that a mutation leaves out: what stands in the file, and what takes its place.
var faults = []struct {
	on                   bool
	file, guard, without string
}{
	{mutation.On("page-doubles-what-comes-again"), "talk.js", "while (s.lastChild && s.lastChild !== kept) s.lastChild.remove();", ""},
	{mutation.On("page-approves-by-itself"), "talk.js", `page.refresh("ask"); page.say(`, `page.refresh("ask").then(() => document.querySelector(".ask button").focus()); page.say(`},
	{mutation.On("drag-moves-without-asking"), "board.js", "const answer = await page.call(\"POST\", `${api}/tasks/${id}/move`", "document.querySelector(`#col-${to} .cards, #col-${to}`).append(item); const answer = await ((...a) => ({task: {status: to}}))(\"\", \"\""},
}

// broken is a static file with the fault that is in force.
func broken(file string, data []byte) []byte {
	for _, f := range faults {
		if f.on && f.file == file {
			data = bytes.Replace(data, []byte(f.guard), []byte(f.without), 1)
		}
	}
	return data
}
