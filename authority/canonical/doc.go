// Package canonical is LoopX's canonical JSON form, on bytes.
//
// LoopX digests, compares and stores JSON values by one spelling of each value:
// the one its TypeScript obtains by parsing, rebuilding with sorted keys and
// printing. This package produces that spelling from any legal one (Append),
// proves that bytes already are it (Check, Tracker), walks it (Members,
// Elements, Skip), and computes and replays LoopX's authority_state_delta_v0
// between two such texts (Diff, Delta.Apply).
//
// The form in short:
//
//   - no white space;
//   - keys that look like array indices (0 to 4294967294, shortest decimal)
//     come first, by number; all others follow by Unicode code point, where a
//     lone surrogate counts as its own value; a repeated key counts by its last
//     member alone;
//   - strings are raw UTF-8 except \" \\ \b \f \n \r \t, \u00xx for the other
//     controls below U+0020 and \udxxx for lone surrogates;
//   - numbers are IEEE doubles printed as ECMAScript prints them.
//
// Strings that leave JSON (ParseString, operation ids, keys of Members) are
// WTF-8: UTF-8 in which a lone surrogate is its three-byte form. Comparing such
// strings by bytes is comparing them by code point.
//
// Nothing here keeps or changes the bytes it is given, unless it says so.
// The rules were observed on LoopX itself; testdata/fixtures/canonical holds
// its answers.
package canonical
