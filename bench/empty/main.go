// Command empty does nothing. Command bench compares lifeloop-hook with it, as the Go
// program that takes the least time.
package main

func main() {}
