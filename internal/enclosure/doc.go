// Package enclosure works on files inside one directory of ours, and on nothing else. It owns containment: what a row of a
// board calls a path is a claim that anybody may have written, and people have lost their source trees to a removal that
// believed it.
//
// What it promises: a path counts as inside only if it is strictly below the directory both by its name and after all
// links are followed. Links are never followed out, and a removal takes a link away and never what it points to. A tree
// that something is mounted in is left alone. Names are bytes: two spellings of one accented letter are two names.
package enclosure
