// Package hermes reads the state.db of the Python original, of any schema version, and turns what it holds into plain
// values. It owns that foreign format: which columns there may be, how content is encoded, what its flags mean. It never
// writes to the file and makes nothing beside it (see sqlite.Borrow); what becomes of the values is its caller's.
//
// Columns are taken as the file has them: one that is missing has its default, one that is unknown is left alone. A cell
// that cannot be what it should (text where a time belongs, broken UTF-8, JSON that is none) degrades by itself, with one
// Warning, and never costs its row.
package hermes
