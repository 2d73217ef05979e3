// Package nearest finds the known word that an unknown word resembles, for an
// error message. It corrects nothing.
//
//	fmt.Errorf("%q is not a state%s", word, nearest.Hint(word, states))
package nearest

import "fmt"

// Hint returns `; did you mean "X"?` for the known word X that is most like
// word, or "" if none is like it.
func Hint(word string, known []string) string {
	if near := Word(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Word returns the known word with the fewest single-letter edits from word; of several,
// the first. It returns "" if each known word needs more edits than a third of the
// letters of word, rounded up. For a word of one letter, no edit is allowed.
func Word(word string, known []string) string {
	word = word[:min(len(word), 64)]   // a prefix is enough, because known words are short
	best, least := "", (len(word)+5)/3 // least is one more than the number of edits that are allowed
	for _, w := range known {
		if d := distance(word, w); d < least && d < len(word) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the single-letter edits from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
