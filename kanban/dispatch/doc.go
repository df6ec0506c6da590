// Package dispatch hands ready cards to workers and says what became of them.
//
// It promises that nothing is silently idle: it is woken by what happens (a card made here, a commit by another
// process, a worker's end, a time that has come), and every card that did not start has a reason with a name,
// since when, until when, and what to do. It promises that a card has one worker at most: the claim is a
// compare-and-swap in the file, the keeper's name is a function of the run's row, a worker that survived its end
// keeps its claim, and a card whose last worker still lives is not started again. And it promises that one bad
// board, lane or card harms no other.
//
// A tick is: reap, then per board the fingerprint gate, ends, claims, orphans, stale, crashes, timeouts,
// promotion, and over all boards the spawns. Nothing sleeps in it and no write transaction spans a start: a worker is
// started beside the tick, and asked to end without waiting. What the tick decides by is in pure functions: Judge
// for running cards, Classify for ends, Gates and Guard for ready ones, Explain for people.
//
// A worker that another program started is judged by its pid and fingerprint. It is ended, with all that it started, only
// where the fingerprint says boot, container and start; on less nothing is ever signalled.
package dispatch
