// Command empty does nothing: the floor for the start of a Go program.
package main

func main() {}
