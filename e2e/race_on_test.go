//go:build race

package e2e

// raceBuild makes the program under test watch for races, as these tests do. The library that is translated from C does its own arithmetic with
// memory and is left out.
var raceBuild = []string{"-race", "-gcflags", "github.com/ncruces/go-sqlite3-wasm/...=-race=false"}
