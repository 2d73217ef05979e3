package hosts

import (
	"fmt"
	"strings"
)

// A Change is what happens, or would, to one file. A text of nil is a file
// that is not there.
type Change struct {
	Path          string
	Before, After *string
	// Backup is a copy of what was there, empty when there was nothing.
	Backup string
}

const context = 3 // lines around a difference

// Diff tells a change as a unified diff.
func (c Change) Diff() string {
	text := func(s *string) (string, string) {
		if s == nil {
			return "", "/dev/null"
		}
		return *s, c.Path
	}
	before, from := text(c.Before)
	after, to := text(c.After)
	if before == after && from == to {
		return ""
	}
	old, fresh := lines(before), lines(after)
	script := compare(old, fresh)

	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	for i := 0; i < len(script); {
		if script[i].op == ' ' {
			i++
			continue
		}
		// A hunk reaches to the next stretch that two contexts fit into.
		first, last := max(0, i-context), i
		for j := i; j < len(script) && j-last <= 2*context; j++ {
			if script[j].op != ' ' {
				last = j
			}
		}
		end := min(len(script), last+context+1)
		hunk(&b, script[first:end])
		i = end
	}
	return b.String()
}

func hunk(b *strings.Builder, script []step) {
	var olds, news int
	for _, s := range script {
		if s.op != '+' {
			olds++
		}
		if s.op != '-' {
			news++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(script[0].old, olds), span(script[0].new, news))
	for _, s := range script {
		fmt.Fprintf(b, "%c%s\n", s.op, strings.TrimSuffix(s.line, "\n"))
		if !strings.HasSuffix(s.line, "\n") {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
}

// span is a range of a hunk's header: an empty one is named by the line before.
func span(at, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", at)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}

func lines(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

// A step of an edit script: a line that stays, goes or comes, and how many
// lines of the old and the new text lie before it.
type step struct {
	op       byte
	line     string
	old, new int
}

// tooMuch bounds the table of compare; texts that differ in more lines are
// told as all going and all coming.
const tooMuch = 4 << 20

// compare finds a shortest edit script between what two texts do not have in
// common at their ends, by the longest common subsequence.
func compare(old, fresh []string) []step {
	head := 0
	for head < len(old) && head < len(fresh) && old[head] == fresh[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(fresh)-head && old[len(old)-1-tail] == fresh[len(fresh)-1-tail] {
		tail++
	}
	a, b := old[head:len(old)-tail], fresh[head:len(fresh)-tail]
	common := func(i, j int) int { return 0 }
	if len(a)*len(b) <= tooMuch {
		width := len(b) + 1
		table := make([]int32, (len(a)+1)*width)
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
				if a[i] == b[j] {
					table[i*width+j] = table[(i+1)*width+j+1] + 1
				}
			}
		}
		common = func(i, j int) int { return int(table[i*width+j]) }
	}

	var script []step
	i, j := 0, 0
	add := func(op byte, line string) {
		script = append(script, step{op, line, i, j})
		if op != '+' {
			i++
		}
		if op != '-' {
			j++
		}
	}
	for _, line := range old[:head] {
		add(' ', line)
	}
	for i < head+len(a) || j < head+len(b) {
		x, y := i-head, j-head
		switch {
		case x < len(a) && y < len(b) && a[x] == b[y] && common(x, y) > 0:
			add(' ', a[x])
		case x < len(a) && (y == len(b) || common(x+1, y) >= common(x, y+1)):
			add('-', a[x])
		default:
			add('+', b[y])
		}
	}
	for _, line := range old[head+len(a):] {
		add(' ', line)
	}
	return script
}
