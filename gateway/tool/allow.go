package tool

import (
	"slices"
	"strings"
)

// open gives the hazards that the policy's list does not settle. An entry of tools.allow is
//
//	recursive-delete     a rule: nobody is asked about it
//	git push --force *   a command: the hazards of commands that read like it are settled, and of no other; * is any text
//	mcp_files_*          a tool: its calls are never asked about
//
// The list is the user's own, so it holds where nobody can be asked, too.
func (p Policy) open(call Call, hazards []Hazard) []Hazard {
	return slices.DeleteFunc(slices.Clone(hazards), func(h Hazard) bool {
		return slices.ContainsFunc(p.Allow, func(entry string) bool {
			return entry == h.Rule || like(entry, call.Name) || h.Piece != "" && like(entry, strings.Join(strings.Fields(h.Piece), " "))
		})
	})
}

// like matches a text against a pattern in which * stands for any text.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, last)
}
