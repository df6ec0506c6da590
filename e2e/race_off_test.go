//go:build !race

package e2e

var raceBuild []string
