// Package house holds no code: it is the tests of the rules by which this tree is built. They read every source
// file and fail where a door is passed by, an arrow points the wrong way, an actor is missing from the one run.Group, or
// a package does not say what it is for.
package house
