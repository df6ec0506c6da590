package chamber

// foreignScripts are roles in other programs that may be on this machine: plain SQLite, which knows nothing of us. A
// script gets the parameters as its last argument, keeps a ledger and tells events as our own roles do.
var foreignScripts = map[string][]string{}
