// Package notify delivers the outbox of each board: it tells subscribers (a webhook, a command, a chat session) what
// happened to cards. What is to be delivered is rows of the board, written with the events; this package sends them.
//
// It promises: each row is delivered at least once, under one key that never changes, so that a receiver can tell what it has
// already. The rows of one subscription arrive in the order of their events. A failed delivery is tried again after 5 s,
// then after ever longer, up to 300 s; after six hours, or when the receiver refuses for good, it is parked and shown,
// and waits for a person. Nothing is dropped. Of several daemons on one root one delivers for a subscription: it has the lease in
// the subscription's row, and only daemons that know the target take it.
package notify
