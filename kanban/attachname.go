package kanban

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxFilename  = 200 // characters that people gave a file
	maxNameBytes = 240 // file systems take 255, and a collision adds a number
)

// cleanFilename is what a file is called after it was attached: the last part of what it was called, without control
// characters, changes of direction and leading dots. Nothing may be left of it.
func cleanFilename(name string) string {
	name = clean(strings.ReplaceAll(name, "\x00", ""))
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return -1
		}
		return r
	}, name)
	name = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(name), "."))
	return shorten(name)
}

// shorten keeps the ending, by which programs know what a file is.
func shorten(name string) string {
	base, ext := splitExt(name)
	if utf8.RuneCountInString(ext) > 20 {
		base, ext = name, ""
	}
	base = cut(base, maxFilename-utf8.RuneCountInString(ext))
	for len(base)+len(ext) > maxNameBytes {
		_, last := utf8.DecodeLastRuneInString(base)
		base = base[:len(base)-last]
	}
	return base + ext
}

func splitExt(name string) (base, ext string) {
	ext = path.Ext(name)
	return strings.TrimSuffix(name, ext), ext
}

// renumber gives the n-th other name of a file whose name is taken. How it looks is the caller's: Hermes numbers what
// people upload and what workers leave in two ways.
func renumber(name, format string, n int) string {
	if n == 0 {
		return name
	}
	base, ext := splitExt(name)
	return base + fmt.Sprintf(format, n) + ext
}

const (
	uploaded  = " (%d)"
	completed = "_%d"
)
