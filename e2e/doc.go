// Package e2e runs pinned versions of Claude Code, Codex, Gemini CLI, OpenCode and OpenClaw
// with lifeloop-wrap. It checks every lifecycle event and its order, every receipt,
// every exit code, the screen, and the files in the user's home.
//
// The tests need the build tag e2e, Linux with namespaces, and the harnesses that
// install-harnesses.sh installs in .harnesses/ or HARNESSES_DIR. Whatever is missing
// is reported, and the tests that need it are skipped.
//
//	go test -tags e2e ./e2e/ -count=1 -v
//
// Each test is a story that the same script plays twice, bare and wrapped. The
// script waits only for the harness's own output, so it cannot hide a difference.
// Stories without a bare counterpart (a relaunch, a pause, an abort) are played
// wrapped only. Each test has its own world (isolate.sh): a loopback network, a
// fresh home and its own processes. A test enters it by starting its own program
// again, inside.
package e2e
