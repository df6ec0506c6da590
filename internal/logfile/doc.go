// Package logfile keeps what the daemon says in files of its home, so that it can be read back wherever the daemon runs and also when it
// does not: one JSON object to a line, the newest lines in gatewayd.log, the older ones in a bounded number of files beside it.
//
// The journal, a container's log and a terminal get the same records; this is the copy that `gatewayd logs` reads. A Relay keeps those from
// holding up whoever writes.
package logfile
