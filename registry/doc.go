// Package registry owns every handle on a file that more than one part of the daemon uses: at most one
// generation of a path is current, users count references on it, and the last one out closes it.
//
// It promises:
//
//   - Acquire and Release of a path that is open cost no allocation and no system call.
//   - All opening and closing happens outside the registry's lock: paths never wait for each other.
//   - A close is admitted to its path's barrier in the critical section that takes the generation away, and the
//     barrier counts. A path can be closing two generations at once, the current one and an older one whose file
//     was replaced; only the last of them to finish lets a new handle open. A physical close that overlapped
//     the next lifetime of its path has zeroed pages of files elsewhere, so the barrier is never lifted early.
//   - Every wait is bounded by the caller's context and by a timeout, and its error names path and phase.
//   - A generation that lost its files on disk is closed for good, which captures what only it holds, before the
//     next opens: until then Acquire waits. Run retries, a second to a minute apart, and a Keep follows by itself.
//   - A handle whose close failed is not forgotten: it is stranded, counted, and closed again until it works.
//   - CloseAllUnder returns only when nothing under the directory is open, opening or closing, also where the
//     last reference is gone already and only its close still runs. Nothing may remove a directory before that.
//
// Two names of one file are one path when links lead to it; hard links are not looked for.
package registry
