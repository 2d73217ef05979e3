// Lifeloop-hook is `lifeloop-wrap hook` as a program of its own, with nothing
// else in it: harnesses start it at every turn and wait for it, and what a
// program links is paid for at each start. The wrapper has its hooks call it
// when it lies beside lifeloop-wrap.
//
//	lifeloop-hook EVENT [--then CMD]
package main

import (
	"os"

	"lifeloop/internal/hook"
)

func main() { os.Exit(hook.Main(os.Args[1:])) }
