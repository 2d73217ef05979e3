// Lifeloop-hook is `lifeloop-wrap hook` as a separate program with nothing else
// in it. Harnesses start it at every turn and wait for it, and each linked package
// makes that start slower. Injected hooks call it if it is in the same folder as
// lifeloop-wrap.
//
//	lifeloop-hook EVENT [--then CMD]
package main

import (
	"os"

	"lifeloop/internal/hook"
)

func main() { os.Exit(hook.Main(os.Args[1:])) }
