// Package keys owns who may use a daemon's doors: named keys with scopes, the logins that pages have by cookie, and what a wrong key costs.
//
// It promises that keys.json in the home holds no key, only SHA-256 hashes of random texts; that the file is always whole, whoever writes
// it; that a change of it by another process counts from the next request on; and that what a key has open ends within a second of the key's
// going. A hash without salt is enough, because nobody can try 130 random bits; a short text that a person chose is marked weak and
// costs its address a wait.
package keys
