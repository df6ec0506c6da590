// Package provider speaks a model's wire: chat completions, Anthropic's Messages API, and the offline model that needs no wire.
//
// It owns what can go wrong between us and a model server: timeouts, retries with back-off, the breaker, forms that a server refuses, the gate
// in front of a provider's key, the models that stand in for another one, and the sorting of every failure into one Class with a remedy a
// person can follow. A client is one server with one key; a Chain asks several; a Gate is shared by all who use one key, across the processes of a home.
// It promises the turn loop five things:
//
//   - an answer is returned only when the server said it was complete; a tool call's arguments are what the server sent, never
//     mended or guessed, and a call from a stream that broke is never returned;
//   - text that went to the sink is never sent again: a stream that breaks after the first text is not retried here, nor by another
//     model; its text comes back in Error.Partial;
//   - every call ends: by the answer, by a timeout, or by the caller's context, whose cause is kept in the error;
//   - tokens that a server counted are counted once, those of attempts that failed too;
//   - the API key is in no error, no description and no log line.
package provider
