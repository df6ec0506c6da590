package procfs

import "os"

// PIDNamespace names the pid namespace of this process ("pid:[4026531836]"): a pid that was written down in another
// one says nothing here. It is empty where it cannot be read.
func PIDNamespace() string {
	name, err := os.Readlink(root + "self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}
