// Package systemd tells the service manager how the daemon is: ready, stopping, what it does, and that it lives.
// It also writes log lines the way the journal wants them.
//
// It promises:
//
//   - Without a service manager everything here does nothing and fails nowhere.
//   - The watchdog is fed from signs of life of the actors themselves. A daemon whose dispatcher or conversations
//     hang is not fed, however well its timers run; it is then ended with its stacks in the journal and started
//     again. An actor that has ended in order, as during a drain, is no longer waited for.
//
// The unit file beside this package is the one that its tests hold to the daemon's own timeouts.
package systemd
