// Package openapi is the description of the HTTP API as a document of OpenAPI 3.1.
//
// It owns the files *.yaml beside it, one for each noun, in which every operation is written by hand in a short notation, and the reading
// of that notation. The shapes of what the API answers come from the Go types that are answered, by reflection, so that they cannot
// drift; the types are given by the api package. What the document says is held against the handlers by the tests of that package.
//
// The notation of a shape is YAML:
//
//	string, integer, number, boolean, any, null, time, object   a type; time is RFC 3339, object has whatever fields
//	integer 1..500                                              a type within bounds, as are string 1..255 in characters
//	Task                                                        a component: a Go type, or a shape of a file's shapes
//	[Task]                                                      a list
//	pause | drain | null                                        one of these; a word that is no type is itself
//	{a: string, b?: string}                                     an object; what has a question mark may be left out
//	{"*": integer}                                              an object of whatever names
//	integer — what it is for                                    a remark comes last
//
// An object is closed: it has no other fields than those, unless it has "*".
package openapi
