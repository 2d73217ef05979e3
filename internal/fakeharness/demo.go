package fakeharness

import (
	"path/filepath"
	"strings"
)

// DemoStory is the built-in story of the demonstration.
const DemoStory = "claude-demo"

// demoMark in the environment says that a program of a harness's name is a
// stand-in that was started on purpose.
const demoMark = "LIFELOOP_DEMO_STAND_IN=1"

// speedVariable is --speed for a program whose arguments are not ours to give.
const speedVariable = "FAKEHARNESS_SPEED"

// NameOf is the program name under which a built-in story is to be started.
func NameOf(story string) string {
	name, _, _ := strings.Cut(story, "-")
	return name
}

// Environment is what a stand-in needs to play a built-in story with all its
// files below dir; fast leaves the pauses out.
func Environment(story, dir string, fast bool) []string {
	env := []string{demoMark, "FAKEHARNESS_STORY=" + story,
		"CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "home"), "CODEX_HOME=" + filepath.Join(dir, "home")}
	if fast {
		env = append(env, speedVariable+"=20")
	}
	return env
}

// IsStandIn reports whether a program was started as such by [Environment]:
// under a harness's name, with the mark.
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
