//go:build linux

// Command reader prints the lines appended to a file as soon as fsnotify reports
// them, without decoding them. Command bench measures reader for comparison with
// programs that do decode the lines. With -once, reader skips the lines that the file
// already has, and exits after it has printed the first new ones.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

func main() {
	args := os.Args[1:]
	once := len(args) > 0 && args[0] == "-once"
	if once {
		args = args[1:]
	}
	if len(args) != 1 {
		check(errors.New("usage: reader [-once] FILE"))
	}
	f, err := os.Open(args[0])
	check(err)
	if once {
		_, err := f.Seek(0, io.SeekEnd)
		check(err)
	}
	n, err := fsnotify.NewWatcher()
	check(err)
	check(n.Add(filepath.Dir(args[0])))
	buf, rest := make([]byte, 128<<10), 0
	for range n.Events {
		for {
			m, err := f.Read(buf[rest:])
			b := buf[:rest+m]
			if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
				_, err := os.Stdout.Write(b[:end])
				check(err)
				if once {
					return
				}
				rest = copy(buf, b[end:])
			} else {
				rest += m
			}
			if err == io.EOF {
				break
			}
			check(err)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1)
	}
}
