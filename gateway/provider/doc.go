// Package provider speaks a model's wire: the OpenAI-compatible streaming protocol, and the offline model that needs no wire.
//
// It owns what can go wrong between us and a model server: timeouts, retries with back-off, the breaker, and the sorting of
// every failure into one Class with a remedy a person can follow. It promises the turn loop four things:
//
//   - an answer is returned only when the server said it was complete; a tool call's arguments are what the server sent, never
//     mended or guessed, and a call from a stream that broke is never returned;
//   - text that went to the sink is never sent again: a stream that breaks after the first text is not retried here, its text
//     comes back in Error.Partial;
//   - every call ends: by the answer, by a timeout, or by the caller's context, whose cause is kept in the error;
//   - the API key is in no error, no description and no log line.
package provider
