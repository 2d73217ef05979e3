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

// sample is a line about as long as a record of a transcript.
var sample = []byte(`{"type":"assistant","message":{"content":"` + strings.Repeat("word ", 180) + `"}}` + "\n")

// BenchmarkAppendToDeliver measures the time from an appended line to its
// delivery by the watcher. It alternates with a minimal reader on fsnotify: one
// event, one read, one search for the newline. x_p50 is the ratio of the medians.
// A pause before each line lets the reader sleep, as in a session.
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

// appender returns a function that appends one line and measures the time until it
// receives from the channel named delivered.
func appender(b *testing.B, path string, delivered chan struct{}) func() time.Duration {
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
		<-delivered
		return time.Since(begin)
	}
}

func startWatcher(b *testing.B) func() time.Duration {
	path := filepath.Join(b.TempDir(), "log")
	delivered, done := make(chan struct{}), make(chan struct{})
	w, err := New(Config{Deliver: func(Line) { delivered <- struct{}{} }})
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
	measure := appender(b, path, delivered)
	measure() // after this first line the file is open and watched
	return measure
}

func startLeast(b *testing.B) func() time.Duration {
	dir := b.TempDir()
	path := filepath.Join(dir, "log")
	delivered, done := make(chan struct{}), make(chan struct{})
	n, err := fsnotify.NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	measure := appender(b, path, delivered)
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
				delivered <- struct{}{}
			}
		}
	}()
	b.Cleanup(func() { n.Close(); <-done; in.Close() })
	measure()
	return measure
}

// BenchmarkCatchUp reads the file of a long session. It alternates with a loop
// that only splits the same file into lines, with a buffer of the same size. x_split
// is the watcher's speed divided by the speed of that loop.
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
			b.Fatalf("%d lines delivered, want %d", n, lines)
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

// BenchmarkAdd adds 10,000 files that do not exist yet, each in a folder of its
// own. It alternates with plain watches on the same folders.
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
		w.addSpecs()
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
