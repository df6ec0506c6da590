//go:build !mutate

package e2e

const buildTags = ""
