//go:build mutate

package mutation

import "os"

var chosen = os.Getenv("GATEWAYD_MUTATION")

// On reports whether the mutation is in force.
func On(name string) bool { return name == chosen }
