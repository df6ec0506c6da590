// Package tool is what a model may do: the tools, and the one gate before their effects.
//
// It owns the list of tools in a fixed order, the policy that travels with each call, and the place where effects happen: Set.Run
// is the only caller of Tool.Run. It promises that a call whose name, arguments or policy is not right is answered and never
// run, that an unknown context may do nothing, that the floor (a handful of catastrophic commands) has no override, and that
// every result is bounded, valid UTF-8 and says so when something was cut.
//
// Processes are started through reaper only, with an environment made from nothing.
package tool
