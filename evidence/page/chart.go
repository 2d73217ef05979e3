package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel"
)

// A point is one measurement of the context.
type point struct {
	at     time.Time
	tokens int64
}

// A mark is a time at which the context became smaller.
type mark struct {
	at   time.Time
	what string
}

// The size of the chart in its own units, and how many points it has at most.
const (
	chartWidth, chartHeight = 900, 180
	maxPoints               = 600
)

// A chart shows the size of the context over the time of the session.
type chart struct {
	Width, Height int
	Line          string // points of a polyline
	Marks         []dash
	Top           string // the number of tokens at the upper edge
	TopIsWindow   bool
	Took          string
}

// A dash is a vertical line of the chart.
type dash struct {
	X    string
	What string
}

func (p *Page) mark(at time.Time, what string) { p.marks = append(p.marks, mark{at, what}) }

// measured adds a measurement at the time when it was made. The ledger may record a
// measurement later, and may record it once more, as stale, after a compaction.
func (p *Page) measured(at time.Time, f kernel.ContextMeasured) {
	if f.Tokens == nil {
		return
	}
	if !f.At.IsZero() {
		at = f.At
	}
	p.window = max(p.window, f.Window)
	i, known := slices.BinarySearchFunc(p.points, at, func(one point, at time.Time) int { return one.at.Compare(at) })
	if !known {
		p.points = slices.Insert(p.points, i, point{at, *f.Tokens})
	}
}

// tokensAt returns the newest measurement that is not after a time; empty if there is
// none.
func (p *Page) tokensAt(at time.Time) string {
	i, known := slices.BinarySearchFunc(p.points, at, func(one point, at time.Time) int { return one.at.Compare(at) })
	if known {
		i++
	}
	if i == 0 {
		return ""
	}
	return grouped(p.points[i-1].tokens)
}

// chart draws the measurements, or returns nil if there are none.
func (p *Page) chart() *chart {
	if len(p.points) == 0 {
		return nil
	}
	top := p.window
	for _, one := range p.points {
		top = max(top, one.tokens)
	}
	c := &chart{Width: chartWidth, Height: chartHeight, Top: grouped(top), TopIsWindow: top == p.window, Took: p.took()}
	span := max(p.ended.Sub(p.begun), 1)
	x := func(at time.Time) string {
		return fmt.Sprintf("%.1f", float64(chartWidth)*float64(max(at.Sub(p.begun), 0))/float64(span))
	}
	var line []string
	for _, one := range thinned(p.points) {
		y := float64(chartHeight) * (1 - float64(one.tokens)/float64(max(top, 1)))
		line = append(line, fmt.Sprintf("%s,%.1f", x(one.at), y))
	}
	c.Line = strings.Join(line, " ")
	for _, one := range p.marks {
		c.Marks = append(c.Marks, dash{x(one.at), one.what})
	}
	return c
}

// thinned divides the points into at most maxPoints/2 parts, and keeps the largest
// and the last point of each.
func thinned(points []point) []point {
	if len(points) <= maxPoints {
		return points
	}
	var out []point
	for part := range slices.Chunk(points, len(points)/(maxPoints/2)+1) {
		largest := slices.MaxFunc(part, func(a, b point) int { return int(a.tokens - b.tokens) })
		last := part[len(part)-1]
		if largest.at.Before(last.at) {
			out = append(out, largest)
		}
		out = append(out, last)
	}
	return out
}
