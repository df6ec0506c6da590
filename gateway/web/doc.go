// Package web is the page: the boards, a card, the timeline of its workers, the chat, the sessions and the health, for people with a browser.
//
// It owns how these look and nothing else. What it shows it asks of the same interfaces as the HTTP API, so a reason, a count or a refusal
// reads the same at both doors; what it changes it changes through /api with the key of whoever looks, so no rule of a board or of a
// conversation is here.
//
// It promises:
//   - Every page is whole without JavaScript: reading, filtering and paging are links and forms. Changing things needs it, and says so.
//   - A part of a page is the same template as in the page. It is asked for at the page's own address with the header
//     Gatewayd-Fragment: NAME, and answered alone. An unknown name is 404; a fragment behind an error is the error in words.
//   - What people and models wrote is text: html/template escapes it, and Markdown is rendered without raw HTML.
//   - Nothing is fetched from elsewhere and nothing is inline: the Content-Security-Policy forbids both. Static files carry the hash of
//     their content and may be kept for ever under it.
//   - A handler keeps no state between requests and is safe for concurrent use.
//
// The handler does not ask who calls: it is mounted behind the API's guard, which does. Without it only /login and /static/ may be open.
package web
