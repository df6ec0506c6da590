//go:build mutate

package mutation

import "os"

// Variable names the mutation in the environment of a program that takes one.
const Variable = "GATEWAYD_MUTATION"

var chosen = os.Getenv(Variable)

// On reports whether the mutation is in force.
func On(name string) bool { return name == chosen }
