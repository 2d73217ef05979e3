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
// Each test is a story that the same script plays twice: with the harness alone, and
// with the harness under lifeloop-wrap. The script waits only for the harness's own
// output. A script that also waited for lifeloop-wrap could hide a difference between the
// two plays. Stories that need lifeloop-wrap (a relaunch, a pause, an abort) are played
// only with lifeloop-wrap. Each test runs in its own namespaces (isolate.sh), with a
// loopback network, a fresh home and its own processes. To enter the namespaces, the test
// starts its own program again inside them.
package e2e
