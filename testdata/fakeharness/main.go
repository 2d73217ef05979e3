// Command fakeharness is [fakeharness.Run] as a program.
package main

import (
	"os"

	"lifeloop/internal/fakeharness"
)

func main() { os.Exit(fakeharness.Run(os.Args, os.Environ(), os.Stdin, os.Stdout)) }
