package provider

import (
	"testing"

	"go.uber.org/goleak"
)

// Every call ends with all it started: a goroutine left behind fails the package.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
