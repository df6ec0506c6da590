// Package compact decides what of a conversation is folded away, what stays, and what the summary in between must be like.
//
// It is pure: rows go in, a plan comes out; nothing here calls a model, reads a clock that it was not given, or writes. The
// calls and the leases are gateway's, the transaction is sessiondb's. What it promises of every plan:
//
//   - a call is never parted from its results, and roles go on alternating;
//   - what a person wrote in the folded part goes on word for word, newest first inside a budget, in one row that is sent and
//     not shown (the rows themselves are history);
//   - the summary stands in the assistant's role and is introduced as notes about the past, never as an instruction;
//   - a plan that would not make the conversation smaller says so (Plan.Grows), and one that would fold nothing new is none;
//   - the same rows give the same plan: where a rolling compaction stands is read from the rows alone.
package compact
