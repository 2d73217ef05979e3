// Lifeloop-wrap launches a coding harness in the user's terminal, where the harness
// looks and behaves as usual. Lifeloop-wrap turns what happens there into lifecycle
// events, calls to subscribed client programs, and durable receipts.
//
//	lifeloop-wrap run -- claude
//	lifeloop-wrap ps
//	lifeloop-wrap receipts last
//
// This package contains flags, wiring and exit codes; the rules are in the
// packages that it imports.
package main

import (
	"os"

	"lifeloop/internal/fakeharness"
	"lifeloop/internal/hook"
	_ "lifeloop/internal/minimum" // must be initialized before any package opens a file
	_ "lifeloop/internal/quick"   // its init runs the commands guard and hook, but not hook --host
)

func main() {
	// Commands that programs run are served before anything else is built, because
	// they must start fast.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "hook":
			if h, ok := isHostHook(os.Args[2:]); ok {
				os.Exit(hostHook(h, os.Stdin, os.Stdout, os.Stderr))
			}
			// The arguments after --host are wrong. hook.Main ignores unknown arguments.
			os.Exit(hook.Main(os.Args[2:]))
		case demoClient:
			os.Exit(demoClientMain(os.Stdin, os.Stdout))
		}
	}
	if fakeharness.IsStandIn(os.Args[0], os.Environ()) {
		os.Exit(fakeharness.Run(os.Args, os.Environ(), os.Stdin, os.Stdout))
	}
	os.Exit(execute(os.Args[1:]))
}
