// Package terminal is a person's end of a conversation: text that appears above, and below it a line that is edited while it does.
//
// What is printed scrolls up and stays, as with any command. The rows beneath it (what is going on, and the line that is edited) are
// painted anew whenever they change, each time in one write, so that nothing flickers and nothing is drawn into a half-written
// answer. The package knows nothing of daemons, models or turns.
package terminal
