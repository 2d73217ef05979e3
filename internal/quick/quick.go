// Package quick runs the commands guard and hook while the other packages of the program
// are not yet initialized. A user or a harness waits for each of these commands, and they
// need few packages. A program imports quick only for that effect; it exports nothing.
//
//	import _ "lifeloop/internal/quick"
//
// Packages are initialized in the order of their import paths, each after its own imports.
// Package quick imports little, so it is initialized before, for example, the packages
// of SQLite and HTTP. It serves no other command, and no hook that is installed in the
// configuration of a harness (hook --host), because that one needs the adapters.
package quick

import (
	"os"

	"lifeloop/harness"
	"lifeloop/internal/hook"
)

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "guard":
		os.Exit(harness.GuardMain())
	case "hook":
		if len(args) == 0 || args[0] != "--host" {
			os.Exit(hook.Main(args))
		}
	}
}
