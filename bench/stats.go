//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// times are the durations of several programs, one per round.
type times [][]time.Duration

// inTurn runs each program once per round, in random order: a program leaves traces
// in the processor's caches, so a fixed order would favour one of them.
func inTurn(rounds int, programs ...func(round int) time.Duration) times {
	t := make(times, len(programs))
	for round := range rounds {
		for _, which := range rand.Perm(len(programs)) {
			t[which] = append(t[which], programs[which](round))
		}
	}
	return t
}

func (t times) pairs(floor, ours int) pairs { return pairs{t[floor], t[ours]} }

// pairs are the times of the floor and of lifeloop-wrap, measured in turn: one of each per
// round.
type pairs struct{ floor, ours []time.Duration }

// ratios returns ours divided by the floor for each pair, sorted.
func (p pairs) ratios() []float64 {
	var r []float64
	for i := range p.floor {
		r = append(r, float64(p.ours[i])/float64(p.floor[i]))
	}
	slices.Sort(r)
	return r
}

// extra returns ours minus the floor for each pair, sorted.
func (p pairs) extra() []time.Duration {
	var d []time.Duration
	for i := range p.floor {
		d = append(d, p.ours[i]-p.floor[i])
	}
	slices.Sort(d)
	return d
}

// at returns the q-quantile of sorted.
func at[T any](sorted []T, q float64) T { return sorted[int(q*float64(len(sorted)-1)+0.5)] }

func median(d []time.Duration) time.Duration { return at(slices.Sorted(slices.Values(d)), 0.5) }

// ratioRow returns a row of ratios without a target.
func (p pairs) ratioRow(what string) row {
	r := p.ratios()
	return row{what: what, floor: short(median(p.floor)), ours: short(median(p.ours)), median: at(r, 0.5),
		ratio: fmt.Sprintf("%.3f", at(r, 0.5)), spread: fmt.Sprintf("%.3f … %.3f", at(r, 0.25), at(r, 0.75)), target: "-"}
}

// atMost sets a target for the median ratio.
func (r row) atMost(limit float64) row {
	r.target = fmt.Sprintf("≤ %.2f", limit)
	r.missed = r.median > limit
	return r
}

// speedRow returns a row of the speed of lifeloop-wrap divided by that of the floor. The
// target is at least limit.
func (p pairs) speedRow(what string, limit float64) row {
	r := pairs{p.ours, p.floor}.ratioRow(what)
	r.floor, r.ours = r.ours, r.floor
	r.target = fmt.Sprintf("≥ %.2f", limit)
	r.missed = r.median < limit
	return r
}

// extraRow returns a row of differences without a target.
func (p pairs) extraRow(what string) row {
	d := p.extra()
	return row{what: what, floor: short(median(p.floor)), ours: short(median(p.ours)), median: float64(at(d, 0.5)),
		ratio: "+" + short(at(d, 0.5)), spread: short(at(d, 0.25)) + " … " + short(at(d, 0.75)), target: "-"}
}

// within sets a target for the median difference.
func (r row) within(limit time.Duration) row {
	r.target = "≤ +" + short(limit)
	r.missed = r.median > float64(limit)
	return r
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch a := d.Abs(); {
	case a < time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	case a < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
