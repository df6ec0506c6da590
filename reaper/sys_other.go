//go:build !linux

package reaper

import (
	"errors"
	"os"
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

// The program runs on Linux only and says so at its start. These make it build elsewhere: checkKernel refuses, so
// nothing behind it is ever reached.

const selfExe = ""

func becomeSubreaper() error                                { return errors.ErrUnsupported }
func checkKernel() error                                    { return errors.ErrUnsupported }
func keeperAttr(*int) *syscall.SysProcAttr                  { return nil }
func leaderAttr(*int) *syscall.SysProcAttr                  { return nil }
func childAttr(*int) *syscall.SysProcAttr                   { return nil }
func pidfdFile(int) *os.File                                { return nil }
func waitExit(*os.File) error                               { return errors.ErrUnsupported }
func openVerified(int, uint64) (int, error)                 { return -1, errors.ErrUnsupported }
func signalFile(*os.File, syscall.Signal) error             { return errors.ErrUnsupported }
func signalAll([]procfs.Stat, syscall.Signal) []int         { return nil }
func killGroup(int)                                         {}
func waitAll([]int, time.Duration) int                      { return 0 }
func closeFD(int)                                           {}
func nextExited() (int, error)                              { return 0, errors.ErrUnsupported }
func hasChildren() bool                                     { return false }
func reapPid(int) (syscall.WaitStatus, bool)                { return 0, false }
func treeUsage() (user, system time.Duration, maxRSS int64) { return 0, 0, 0 }
func controlPair() (daemon, keeper *os.File, err error)     { return nil, nil, errors.ErrUnsupported }
func isSocket(int) bool                                     { return false }
func keepFromChildren(int)                                  {}
func replaceFD(int, int) error                              { return errors.ErrUnsupported }
func openFlagsNoFollow() int                                { return 0 }
func nameThread(string)                                     {}
func descendants([]procfs.Stat, ...int) []procfs.Stat       { return nil }
func offspring(int) []procfs.Stat                           { return nil }

func blankFile(string) *os.File { return nil }

func nameFile(*os.File, string) error { return errors.ErrUnsupported }
