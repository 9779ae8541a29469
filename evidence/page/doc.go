// Package page makes the one page that people read of a bundle: failures first, the
// timeline with the time in which nobody could write, the arms side by side, what was
// covered, and curves. It is one file that asks for nothing: no script, no font, no
// network. What it shows stands in the documents beside it; the page proves nothing.
package page
