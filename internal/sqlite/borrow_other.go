//go:build !linux

package sqlite

import "os"

func lockAsReader(*os.File, string) (unlock func()) { return func() {} }

func tryHold(*os.File) bool { return false }

func tryShared(*os.File) error { return nil }

func writerAtWork(*os.File) (bool, error) { return false, nil }
