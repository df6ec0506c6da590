// Package homesocket is a Unix socket in a home, by which other processes of the same user reach its daemon.
//
// It promises that the socket is private (0600), that one which an ended daemon left is replaced by the holder of the home and by nobody else, that a
// home whose name is too long for a socket has one all the same, and that only processes of the same user or of root are heard.
package homesocket
