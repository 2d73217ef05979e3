//go:build linux

// Command walk reads a file to its end on one thread, as the wrapper reads a transcript
// that is already long, and prints the time and memory used. It uses the watcher and
// the named decoder, or, with "lines" instead of a decoder, a minimal search for newlines.
//
// With a first argument "beside" or "aside", it also copies stdin to stdout like a
// wrapper, while it reads the file again and again until stdin ends. "beside" reads
// on an ordinary goroutine, "aside" with the watcher at low priority. With "idle" it only
// copies stdin to stdout.
//
// With "folders" it calls stat on each folder in a folder, and lists the files of each.
// With "count" it counts the lines of files.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/telemetry"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/codex"
	"lifeloop/watchers"
)

// result is what walk prints as JSON.
type result struct {
	Took   time.Duration `json:"took"` // processor time
	Lines  int           `json:"lines"`
	Usages int           `json:"usages"` // model calls found
	Output int64         `json:"output"` // output tokens of the model calls found
	RSS    int64         `json:"rss"`    // peak resident memory, in KiB
}

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "beside":
		pass(func() {
			d := newDecoder(args[1])
			split(args[2], func(line []byte) { d.Decode(line) })
		})
	case len(args) == 3 && args[0] == "aside":
		pass(func() { live(newDecoder(args[1]), args[2]) })
	case len(args) == 1 && args[0] == "idle":
		pass(nil)
	case len(args) == 2 && args[0] == "folders":
		folders(args[1])
	case len(args) > 1 && args[0] == "count":
		n := 0
		for _, path := range args[1:] {
			split(path, func([]byte) { n++ })
		}
		fmt.Println(n)
	case len(args) == 2:
		measure(args[0], args[1])
	default:
		check(errors.New("usage: walk DECODER|lines FILE, walk beside|aside DECODER FILE, walk folders DIR, walk count FILE…, or walk idle"))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func folders(dir string) {
	all, err := os.ReadDir(dir)
	check(err)
	for _, f := range all {
		path := filepath.Join(dir, f.Name())
		_, err := os.Stat(path)
		check(err)
		_, err = os.ReadDir(path)
		check(err)
	}
}

func measure(decoder, path string) {
	runtime.GOMAXPROCS(1)
	var r result
	read := func() { split(path, func([]byte) { r.Lines++ }) }
	if decoder != "lines" {
		d := newDecoder(decoder)
		read = func() { r.follow(path, d) }
	}
	began := busy()
	read()
	r.Took = busy() - began
	// The peak of Getrusage would include the memory of the process that started this one.
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &r.RSS); err != nil {
		check(fmt.Errorf("read VmHWM: %w", err))
	}
	check(json.NewEncoder(os.Stdout).Encode(r))
}

func newDecoder(name string) telemetry.Decoder {
	switch name {
	case "claude-transcript":
		return claude.Transcript()
	case "codex-rollout":
		return codex.Rollout()
	}
	check(fmt.Errorf("no decoder is named %q: use claude-transcript or codex-rollout", name))
	return nil
}

// busy returns the processor time of all threads of this process.
func busy() time.Duration {
	var now unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// watch reads the file with the watcher. When ctx ends, watch reads the part of the file
// that it has not read yet, and returns.
func watch(ctx context.Context, path string, deliver func(watchers.Line)) {
	w, err := watchers.New(watchers.Config{Deliver: deliver})
	check(err)
	w.Add(watchers.Spec{Source: "bench", Path: path})
	check(w.Run(ctx))
}

// follow reads the file as the wrapper does.
func (r *result) follow(path string, d telemetry.Decoder) {
	over, cancel := context.WithCancel(context.Background())
	cancel() // with a context that has ended, watch stops at the present end of the file
	watch(over, path, func(l watchers.Line) {
		r.Lines++
		for _, s := range d.Decode(l.Text) {
			if s.Usage != nil && s.Usage.ID != "" {
				r.Usages++
				r.Output += s.Usage.Output
			}
		}
	})
}

// live reads the file with a watcher that waits for new lines, as in a session. It ends
// the watcher after the last line that the file had at the start.
func live(d telemetry.Decoder, path string) {
	info, err := os.Stat(path)
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch(ctx, path, func(l watchers.Line) {
		d.Decode(l.Text)
		if l.Pos.Offset == info.Size() {
			cancel()
		}
	})
}

// pass copies stdin to stdout while work runs again and again.
func pass(work func()) {
	if work != nil {
		go func() {
			for {
				work()
			}
		}()
	}
	buf := make([]byte, 4096)
	for {
		n, err := os.Stdin.Read(buf)
		if err == io.EOF {
			return
		}
		check(err)
		_, err = os.Stdout.Write(buf[:n])
		check(err)
	}
}

// split finds the lines of the file and passes them to emit.
func split(path string, emit func(line []byte)) {
	f, err := os.Open(path)
	check(err)
	defer f.Close()
	buf := make([]byte, 128<<10)
	for rest := 0; ; {
		n, err := f.Read(buf[rest:])
		if err == io.EOF {
			return
		}
		check(err)
		b := buf[:rest+n]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			emit(b[:i])
			b = b[i+1:]
		}
		if rest = copy(buf, b); rest == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}
