// Package nearest finds the known word that somebody may have meant, for the
// message that refuses what they wrote. It corrects nothing: a word that is not
// known stays refused.
//
//	fmt.Errorf("%q is no state; the nearest is %q", word, nearest.Word(word, states))
package nearest

import "math"

// Word is the word most like name; the first of equals, and empty where there
// are none.
func Word(name string, words []string) string {
	best, least := "", math.MaxInt
	for _, w := range words {
		if d := distance(name, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts the single-letter edits from a to b. Names here are short; a
// long one is cut, since it is like none of them anyway.
func distance(a, b string) int {
	a = a[:min(len(a), 64)]
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
