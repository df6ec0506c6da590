// Package faultfs is a disk that fails when it is told to. It is for tests alone, and lies below everything
// internal/sqlite has of its own: what is proved with it is proved of the whole stack.
//
// Mount puts it under the databases of one directory. From then on it does two things beside passing the calls on to
// the library's own file system:
//
//   - It makes calls fail: Inject says which, how often and with what error (EIO, ENOSPC, EROFS, a read that comes up
//     short).
//   - It writes down every change in its order, and what was made durable when. Crash builds from that the disk as a
//     power cut at any moment may leave it.
//
// A power cut leaves what was synced. Of the rest, each write may be there, may be missing, or may be there in part, by
// sectors; a file that grew may hold zeros or rubbish where nothing arrived. The names in a directory change in their
// order, as on every journalling file system, but how many of the changes since the last sync of the directory are
// there is open. A sync that failed proves nothing, and what it was for is not made good by a later one that succeeds.
//
// What does not go through SQLite is not seen: the -shm, and the files our own code makes with os.
package faultfs
