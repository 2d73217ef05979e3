// Command floor runs its arguments in a pty and copies bytes. Command bench compares
// lifeloop-wrap with it, as a minimal wrapper in Go. Unlike a real wrapper, it waits for
// every process that holds the terminal open, and does not clean up when it is killed.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/creack/pty"
	"golang.org/x/term"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
	}
	os.Exit(code)
}

func run(argv []string) (int, error) {
	if len(argv) == 0 {
		return 125, errors.New("no program to run")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	inner, err := pty.Start(cmd)
	if err != nil {
		return 125, err
	}
	if saved, err := term.MakeRaw(int(os.Stdin.Fd())); err == nil {
		defer term.Restore(int(os.Stdin.Fd()), saved)
	}
	go io.Copy(inner, os.Stdin) // can run until floor itself exits
	buf := make([]byte, 64<<10)
	for {
		n, err := inner.Read(buf)
		if _, err := os.Stdout.Write(buf[:n]); err != nil {
			return 125, err
		}
		if err != nil {
			break // EIO: no process has the terminal open
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 125, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
