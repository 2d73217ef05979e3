//go:build linux

// Command reader prints the lines appended to a file as soon as fsnotify reports
// them, without decoding them. It is the floor for programs that do decode them.
// With -once it exits after the first write.
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
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	once := len(args) > 0 && args[0] == "-once"
	if once {
		args = args[1:]
	}
	if len(args) != 1 {
		return errors.New("usage: reader [-once] FILE")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if once {
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			return err
		}
	}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.Add(filepath.Dir(args[0])); err != nil {
		return err
	}
	buf, rest := make([]byte, 128<<10), 0
	for range n.Events {
		for {
			m, err := f.Read(buf[rest:])
			b := buf[:rest+m]
			if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
				if _, err := os.Stdout.Write(b[:end]); err != nil || once {
					return err
				}
				rest = copy(buf, b[end:])
			} else {
				rest += m
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
