package reaper_test

import (
	"os"
	"testing"

	"gatewayd/reaper"
)

func TestMain(m *testing.M) {
	reaper.Main()
	os.Exit(m.Run())
}
