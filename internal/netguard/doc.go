// Package netguard keeps a request whose address somebody typed (a webhook, the link of an attachment) from reaching this
// machine, its networks or its cloud's metadata service.
//
// The address is judged when the socket is made, after every name was looked up, so a name that answers differently the
// second time gains nothing. Redirects are refused, certificates are checked, no proxy of the environment is used.
package netguard
