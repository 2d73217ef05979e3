//go:build linux

// Command walk reads a file to its end on one thread, as a catch-up does, and
// prints what that took: by our watcher and the named decoder, or, with "lines"
// instead of a decoder, by the least that finds its lines.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Result is what walk prints as JSON.
type result struct {
	Took   time.Duration `json:"took"`
	Lines  int           `json:"lines"`
	Usages int           `json:"usages"` // model calls told
	Output int64         `json:"output"` // their output tokens
	RSS    int64         `json:"rss"`    // the most memory that was ever resident, in KiB
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want a decoder, or lines, and a file")
	}
	runtime.GOMAXPROCS(1)
	var r result
	read := func() error { return r.split(args[1]) }
	if args[0] != "lines" {
		d, err := telemetry.NewDecoder(args[0])
		if err != nil {
			return err
		}
		read = func() error { return r.follow(args[1], d) }
	}
	began := time.Now()
	if err := read(); err != nil {
		return err
	}
	r.Took = time.Since(began)
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	r.RSS = used.Maxrss
	return json.NewEncoder(os.Stdout).Encode(r)
}

// follow reads the file as the wrapper does.
func (r *result) follow(path string, d telemetry.Decoder) error {
	w, err := watchers.New(watchers.Config{Deliver: func(l watchers.Line) {
		r.Lines++
		for _, s := range d.Decode(l.Text) {
			if s.Usage != nil && s.Usage.ID != "" {
				r.Usages++
				r.Output += s.Usage.Output
			}
		}
	}})
	if err != nil {
		return err
	}
	w.Add(watchers.Spec{Source: "bench", Path: path})
	over, cancel := context.WithCancel(context.Background())
	cancel() // to the end, and no further
	return w.Run(over)
}

// split reads the file as fast as its lines can be found.
func (r *result) split(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	for kept := 0; ; {
		n, err := f.Read(buf[kept:])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		b := buf[:kept+n]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			r.Lines++
			b = b[i+1:]
		}
		if kept = copy(buf, b); kept == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}
