package config

import (
	"fmt"
	"slices"
	"strings"

	"lifeloop/internal/nearest"
	"lifeloop/lifeloop"
)

// Match reports whether a client that subscribed to patterns receives event. A
// pattern is an exact name, `*`, or a family such as `session.*`. Wildcards
// never match receipt.emitted and supervisor.tick: a client must name them
// (DECISIONS L3).
func Match(patterns []string, event string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchOne(p, event) })
}

func matchOne(pattern, event string) bool {
	if pattern == event {
		return true
	}
	prefix, wild := strings.CutSuffix(pattern, "*")
	if !wild || byNameOnly(event) {
		return false
	}
	return prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(event, prefix)
}

func byNameOnly(event string) bool {
	return event == string(lifeloop.ReceiptEmitted) || event == string(lifeloop.SupervisorTick)
}

// checkPattern rejects a pattern that matches no event.
func checkPattern(pattern string) error {
	var words []string
	for _, e := range lifeloop.Events() {
		name := string(e)
		if matchOne(pattern, name) {
			return nil
		}
		words = append(words, name)
		family, _, _ := strings.Cut(name, ".")
		if w := family + ".*"; !slices.Contains(words, w) && matchOne(w, name) {
			words = append(words, w)
		}
	}
	if pattern == "supervisor.*" {
		return fmt.Errorf("%q matches nothing: wildcards do not match %s; write the whole name", pattern, lifeloop.SupervisorTick)
	}
	return fmt.Errorf("%q matches no event%s", pattern, nearest.Hint(pattern, words))
}
