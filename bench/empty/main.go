// Command empty does nothing. It is the floor for the start of a Go program.
package main

func main() {}
