package config

import _ "embed"

//go:embed example.yaml
var example string

// Example is a configuration file with every setting, its default and what it does, all of it commented out:
// it loads equal to the defaults, and so does any line of it that has only its first mark removed.
func Example() string { return example }
