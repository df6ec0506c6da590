// Package reaper owns every child process: how it starts, how its whole tree ends, and the record of how it ended.
// No other package starts a process or signals one.
//
// Each child runs under a keeper: this same binary started with a hidden verb. The keeper is a session leader and a
// child subreaper, so no descendant can leave its tree, whatever it does with sessions and double forks.
//
//	daemon ──control socket──► keeper ──fork──► leader ──► … everything the leader starts
//	   ▲                         │  └─ pipe ◄── stdout, stderr ──┘
//	   └──── output pipe ────────┘ (or the capped log file)
//	                             └─► <records>/<id>.start.json, <id>.json
//
// It promises:
//   - When Done is closed nothing of the tree is left, and the Record says how the leader ended: an exit code and a
//     signal are never mixed up. What the leader left behind when it exited is ended too.
//   - A keeper writes its record before it exits, atomically and durably; a keeper that was itself killed leaves
//     nothing running, and the daemon writes the record for it (keeper-lost).
//   - A keeper with Lifetime Outlives lives on when the daemon dies, and is found again with Adopt. One with
//     EndsWithDaemon ends its tree when the daemon's end of the control socket closes.
//   - Nothing is ever signalled on a bare pid: every signal goes through a pidfd whose process was checked by its
//     start time after the pidfd was opened.
//   - The environment of a child is exactly Spec.Env and the tag GATEWAYD_KEEPER=<id>; its descriptors are 0, 1, 2;
//     its signals are at their defaults.
//
// Where both the daemon and a keeper are killed at once, the kernel ends the leader; what the leader had started is
// found by its tag and ended when the next daemon adopts the run.
//
// A Reaper and a Process are safe for concurrent use.
package reaper
