//go:build linux

// Command walk reads a file to its end on one thread, as a catch-up does, and prints
// the time and memory used. It uses the watcher and the named decoder, or, with
// "lines" instead of a decoder, a minimal search for newlines.
//
// With a first argument "beside" or "aside", it also copies stdin to stdout like a
// wrapper, while it reads the file again and again until stdin ends. "beside" reads
// on an ordinary goroutine, "aside" with the watcher at low priority.
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
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/watchers"
)

// Result is what walk prints as JSON.
type result struct {
	Took   time.Duration `json:"took"` // processor time
	Lines  int           `json:"lines"`
	Usages int           `json:"usages"` // model calls found
	Output int64         `json:"output"` // their output tokens
	RSS    int64         `json:"rss"`    // peak resident memory, in KiB
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "beside":
		return pass(args[2], func() error { return new(result).plain(args[1], args[2]) })
	case len(args) == 3 && args[0] == "aside":
		return pass(args[2], func() error { return live(args[1], args[2]) })
	case len(args) == 1 && args[0] == "idle":
		return pass("", nil)
	case len(args) != 2:
		return errors.New("usage: walk DECODER|lines FILE, walk beside|aside DECODER FILE, or walk idle")
	}
	runtime.GOMAXPROCS(1)
	var r result
	read := func() error { return r.split(args[1]) }
	if args[0] != "lines" {
		d, err := newDecoder(args[0])
		if err != nil {
			return err
		}
		read = func() error { return r.follow(args[1], d) }
	}
	began, err := busy()
	if err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	ended, err := busy()
	if err != nil {
		return err
	}
	r.Took = ended - began
	// Getrusage would include the process that started this one.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &r.RSS); err != nil {
		return fmt.Errorf("read VmHWM: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func newDecoder(name string) (telemetry.Decoder, error) {
	switch name {
	case "claude-transcript":
		return claude.Transcript(), nil
	case "codex-rollout":
		return codex.Rollout(), nil
	}
	return nil, fmt.Errorf("no decoder is named %q: use claude-transcript or codex-rollout", name)
}

// busy returns the processor time of all threads of this process.
func busy() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now)
	return time.Duration(now.Nano()), err
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
	cancel() // read to the present end only
	return w.Run(over)
}

// pass copies stdin to stdout while work runs again and again.
func pass(path string, work func() error) error {
	if work != nil {
		go func() {
			for {
				if err := work(); err != nil {
					fmt.Fprintln(os.Stderr, "walk:", path, err)
					os.Exit(1)
				}
			}
		}()
	}
	buf := make([]byte, 4096)
	for {
		n, err := os.Stdin.Read(buf)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			_, err = os.Stdout.Write(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// live follows the file as in a session, up to its end.
func live(decoder, path string) error {
	d, err := newDecoder(decoder)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := watchers.New(watchers.Config{Deliver: func(l watchers.Line) {
		d.Decode(l.Text)
		if l.Pos.Offset == info.Size() {
			cancel()
		}
	}})
	if err != nil {
		return err
	}
	w.Add(watchers.Spec{Source: "bench", Path: path})
	return w.Run(ctx)
}

// plain does the same work at normal priority.
func (r *result) plain(decoder, path string) error {
	d, err := newDecoder(decoder)
	if err != nil {
		return err
	}
	return r.splitTo(path, func(line []byte) { d.Decode(line) })
}

// split only finds the lines of the file.
func (r *result) split(path string) error { return r.splitTo(path, func([]byte) {}) }

func (r *result) splitTo(path string, emit func([]byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	for rest := 0; ; {
		n, err := f.Read(buf[rest:])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		b := buf[:rest+n]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			r.Lines++
			emit(b[:i])
			b = b[i+1:]
		}
		if rest = copy(buf, b); rest == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}
