//go:build mutate

package e2e

// buildTags make the program under test one that takes a mutation, as these tests do.
const buildTags = "mutate"
