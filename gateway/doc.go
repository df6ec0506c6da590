// Package gateway is the conversation: who may speak, one turn at a time, and what is written when.
//
// It owns the life of a turn. A conversation is a goroutine with a bounded mailbox, made by one atomic claim and gone when its
// mailbox is empty; the transcript in sessiondb is the whole state. What the package promises:
//
//   - the user row is stored before the model is called; the assistant row with its tool calls and the intent of their effects
//     before any tool starts; a tool's row before the model or a person sees its result; the answer before it is acknowledged;
//   - a row whose storing failed stops the turn: no tool runs, nothing more is sent;
//   - what a request carries is a pure function of rows, so a process that resumes a conversation sends the bytes the one
//     before it would have sent;
//   - every turn ends, visibly and within a bound, and the cause that ended it (stop, redirect, client gone, drain, lease lost,
//     stall) decides which rows close it, so that roles alternate and every call has one result;
//   - a process that lost the turn's lease writes nothing more.
//
// It does not know HTTP, and it starts no process: tools do that through reaper.
package gateway
