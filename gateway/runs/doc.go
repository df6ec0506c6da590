// Package runs keeps turns that nobody has to wait for. A run is an accepted message of a conversation, and what its turn showed: events
// with numbers, stored before anybody is told of them.
//
// It promises that a watcher who names the last number it saw goes on behind it, while the run is under way, after its end, and after the
// end of the process that it began in; that a watcher who stands still holds nobody; and that each run has exactly one end, which
// tells what its turn's rows tell. Whether a turn goes on after the end of its process is the gateway's rule; the run follows it.
//
// Runs pass (see Options); what was said in them stays in their conversations.
package runs
