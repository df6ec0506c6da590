// Package tools is the board as a model uses it: the tools kanban_show to kanban_link, what each takes, what it may do for
// whom, and what it answers.
//
// It owns the rules that hold whichever door a call comes through, the MCP server or our own turn loop: a worker speaks for its
// run and for no other, so its card, its board and its name are never taken from arguments; every write of it asks the fence in
// the write's own transaction; a worker changes no card but its own, except that it may comment, create and link. Arguments are
// read leniently where models differ ("true", one string for a list) and refused everywhere else, with a text that says that
// nothing was changed and what to send instead. Secrets in what a model writes are taken out before they are stored.
package tools
