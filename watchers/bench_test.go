package watchers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// sample is about as long as a record of a transcript.
var sample = []byte(`{"type":"assistant","message":{"content":"` + strings.Repeat("word ", 180) + `"}}` + "\n")

// BenchmarkAppendToDeliver appends a line and waits until it is told: by the
// watcher, and in turns with it by the least that fsnotify allows (one event,
// one read, one search for the newline). x_p50 is the ratio of the medians.
// With a pause before each line the reader has to be woken, as in a session.
func BenchmarkAppendToDeliver(b *testing.B) {
	for _, pause := range []time.Duration{0, time.Millisecond} {
		b.Run(fmt.Sprintf("pause=%v", pause), func(b *testing.B) { appendToDeliver(b, pause) })
	}
}

func appendToDeliver(b *testing.B, pause time.Duration) {
	ours, least := startWatcher(b), startLeast(b)
	var oursTook, leastTook []time.Duration
	for b.Loop() {
		time.Sleep(pause)
		oursTook = append(oursTook, ours())
		time.Sleep(pause)
		leastTook = append(leastTook, least())
	}
	p := func(d []time.Duration, share float64) float64 {
		slices.Sort(d)
		return float64(d[int(share*float64(len(d)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(p(oursTook, 0.5), "p50_us")
	b.ReportMetric(p(leastTook, 0.5), "least_p50_us")
	b.ReportMetric(p(oursTook, 0.5)/p(leastTook, 0.5), "x_p50")
	b.ReportMetric(p(oursTook, 0.9)/p(leastTook, 0.9), "x_p90")
}

// appender returns a function that appends one line and measures how long it
// takes until told receives.
func appender(b *testing.B, path string, told chan struct{}) func() time.Duration {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { out.Close() })
	return func() time.Duration {
		begin := time.Now()
		if _, err := out.Write(sample); err != nil {
			b.Fatal(err)
		}
		<-told
		return time.Since(begin)
	}
}

func startWatcher(b *testing.B) func() time.Duration {
	path := filepath.Join(b.TempDir(), "log")
	told, done := make(chan struct{}), make(chan struct{})
	w, err := New(Config{Deliver: func(Line) { told <- struct{}{} }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.Add(Spec{Source: "s", Path: path})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	b.Cleanup(func() { cancel(); <-done })
	measure := appender(b, path, told)
	measure() // the file is open and watched from here on
	return measure
}

func startLeast(b *testing.B) func() time.Duration {
	dir := b.TempDir()
	path := filepath.Join(dir, "log")
	told, done := make(chan struct{}), make(chan struct{})
	n, err := fsnotify.NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	measure := appender(b, path, told)
	in, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := n.Add(dir); err != nil {
		b.Fatal(err)
	}
	go func() {
		defer close(done)
		buf := make([]byte, chunk)
		for range n.Events {
			m, _ := in.Read(buf)
			if bytes.IndexByte(buf[:m], '\n') >= 0 {
				told <- struct{}{}
			}
		}
	}()
	b.Cleanup(func() { n.Close(); <-done; in.Close() })
	measure()
	return measure
}

// BenchmarkCatchUp reads what a long session left behind, in turns with a bare
// loop that reads the same file with the same buffer and splits it. x_split is
// our speed as a share of that.
func BenchmarkCatchUp(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	content := bytes.Repeat(sample, 64<<20/len(sample))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	lines := bytes.Count(content, []byte("\n"))
	size := float64(len(content)) / 1e6
	content = nil
	var ours, split time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin, n := time.Now(), 0
		w, err := New(Config{Deliver: func(Line) { n++ }})
		if err != nil {
			b.Fatal(err)
		}
		w.Add(Spec{Source: "s", Path: path})
		w.finish()
		w.close()
		ours += time.Since(begin)
		if n != lines {
			b.Fatalf("%d lines told, want %d", n, lines)
		}
		begin = time.Now()
		if n := bareSplit(b, path); n != lines {
			b.Fatalf("%d lines split, want %d", n, lines)
		}
		split += time.Since(begin)
	}
	b.ReportMetric(size*float64(b.N)/ours.Seconds(), "MB/s")
	b.ReportMetric(size*float64(b.N)/split.Seconds(), "split_MB/s")
	b.ReportMetric(split.Seconds()/ours.Seconds(), "x_split")
}

func bareSplit(b *testing.B, path string) (lines int) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, chunk)
	for {
		_, err := r.ReadSlice('\n')
		if err == io.EOF {
			return lines
		}
		if err != nil {
			b.Fatal(err)
		}
		lines++
	}
}

// BenchmarkAdd asks for 10 000 files that are not there yet, each in a folder
// of its own, in turns with bare watches on the same folders.
func BenchmarkAdd(b *testing.B) {
	const files = 10_000
	dir := b.TempDir()
	for i := range files {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	var ours, bare time.Duration
	for b.Loop() {
		begin := time.Now()
		w, err := New(Config{
			Deliver: func(Line) {},
			Trouble: func(x Trouble) { b.Fatalf("trouble: %+v", x) },
		})
		if err != nil {
			b.Fatal(err)
		}
		for i := range files {
			w.Add(Spec{Source: "s", Path: filepath.Join(dir, fmt.Sprint(i), "log")})
		}
		w.grant()
		w.work()
		ours += time.Since(begin)
		w.close()

		begin = time.Now()
		n, err := fsnotify.NewWatcher()
		if err != nil {
			b.Fatal(err)
		}
		for i := range files {
			if err := n.Add(filepath.Join(dir, fmt.Sprint(i))); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(begin)
		n.Close()
	}
	b.ReportMetric(ours.Seconds()*1e3/float64(b.N), "ms/10000")
	b.ReportMetric(ours.Seconds()/bare.Seconds(), "x_bare")
}
