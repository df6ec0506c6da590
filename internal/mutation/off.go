//go:build !mutate

package mutation

// Variable names the mutation in the environment of a program that takes one; this one takes none.
const Variable = ""

// On reports whether the mutation is in force: never, in the program that ships.
func On(string) bool { return false }
