package fakeharness

import (
	"path/filepath"
	"strings"
)

// DemoStories are the built-in stories of the demonstration: one for each launch.
const DemoStories = "claude-long claude-renewed"

// demoMark is an environment variable that shows that a fake harness was started
// on purpose under a harness's name.
const demoMark = "LIFELOOP_DEMO_STAND_IN=1"

// speedVariable is an environment variable that sets the speed of the script if the flag
// --speed is not given. The demonstration uses it, because there lifeloop-wrap starts the
// fake harness with the arguments of a real one.
const speedVariable = "FAKEHARNESS_SPEED"

// NameOf returns the name of a story's harness: the part of the story's name before the
// first hyphen, such as claude for claude-long.
func NameOf(story string) string {
	name, _, _ := strings.Cut(story, "-")
	return name
}

// Environment returns the variables that make a fake harness play built-in
// stories, one at each launch, with all its files below dir; fast shortens the pauses.
func Environment(stories, dir string, fast bool) []string {
	env := []string{demoMark, "FAKEHARNESS_STORY=" + stories, "FAKEHARNESS_LAUNCHES=" + filepath.Join(dir, "launches"),
		"CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "home"), "CODEX_HOME=" + filepath.Join(dir, "home")}
	if fast {
		env = append(env, speedVariable+"=20")
	}
	return env
}

// IsStandIn reports whether a program was started under the name claude or codex, and its
// environment contains demoMark, one of the variables that [Environment] returns.
func IsStandIn(argv0 string, env []string) bool {
	switch filepath.Base(argv0) {
	case "claude", "codex":
	default:
		return false
	}
	for _, e := range env {
		if e == demoMark {
			return true
		}
	}
	return false
}
