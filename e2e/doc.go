// Package e2e runs real Claude Code, Codex, Gemini CLI and OpenCode, in their
// pinned versions, below lifeloop-wrap and holds what comes out against the
// contract: every lifecycle event in its order, every receipt, every exit code,
// the bytes on the screen and the files in the user's home.
//
// The tests need the build tag e2e, Linux with namespaces, and the harnesses of
// install-harnesses.sh (in .harnesses/, or where HARNESSES_DIR says). What is
// missing is said aloud and the tests that need it are skipped.
//
//	go test -tags e2e ./e2e/ -count=1 -v
//
// Each test is a story that is played twice, bare and wrapped, by the same
// script: the script waits for what the harness itself shows, never for us, so
// nothing in it can hide a difference. What has no counterpart bare (another
// launch in the same session, a pause, an abort) is played wrapped only. A test
// plays in a world of its own (isolate.sh): no network but its loopback, a fresh
// home, no process but its own. To get there a test starts its own program
// again, inside.
package e2e
