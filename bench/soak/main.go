//go:build linux

// Command soak runs a long session with fast turns and a client that takes a second
// for each call, and prints the memory of the wrapper. It exits with 1 if the
// resident memory at the end is more than 1.2 times that after a fifth of the time.
//
//	go run ./bench/soak -wrap bin/lifeloop-wrap -for 10m
//	go run ./bench/soak -wrap bin/lifeloop-wrap -for 3m -rate 100 -hooks=false
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// limit is the largest allowed ratio of the memory at the end to the memory after
// a fifth of the time.
const limit = 1.2

func main() {
	grew, err := soak()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case grew:
		os.Exit(1)
	}
}

func soak() (grew bool, err error) {
	wrap := flag.String("wrap", "bin/lifeloop-wrap", "`program` to run")
	length := flag.Duration("for", 10*time.Minute, "length of the session")
	rate := flag.Int("rate", 30, "turns a second, at most")
	hooks := flag.Bool("hooks", true, "let each turn call its hooks; if false, a turn only writes transcript records")
	flag.Parse()
	program, err := filepath.Abs(*wrap)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "lifeloop-soak-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir, *length, *rate, *hooks); err != nil {
		return false, err
	}
	// If a slow machine plays fewer turns in this time, the remaining turns are
	// dropped.
	ctx, cancel := context.WithTimeout(context.Background(), *length)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", "--config", filepath.Join(dir, "config.yaml"), "--", "claude", "-p", "--script", filepath.Join(dir, "script"))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // not SIGINT, which is ignored if a shell runs this program in the background
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "LIFELOOP_STATE_DIR="+filepath.Join(dir, "state"),
		"PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		return false, err
	}
	first, last, err := watch(ctx, cmd.Process.Pid, filepath.Join(dir, "state"), *length)
	_ = cmd.Wait() // our signal ended the wrapper
	if err != nil {
		return false, err
	}
	ratio := float64(last) / float64(first)
	fmt.Printf("last resident memory divided by that after a fifth of the time: %.2f (at most %.1f)\n", ratio, limit)
	return ratio > limit, nil
}

// prepare builds the harness and the client, and writes their instructions.
func prepare(dir string, length time.Duration, rate int, hooks bool) error {
	for name, pkg := range map[string]string{"claude": "./testdata/fakeharness", "client": "./testdata/fakeclient"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	// The client does not receive frame.opening, because the hook of each prompt would
	// wait a second for the client's answer.
	config := fmt.Sprintf("clients:\n  - id: slow\n    command: [%s, --persistent, --delay, 1s]\n    mode: persistent\n    events: [frame.opened, frame.ending, frame.ended, context.pressure_observed]\n", filepath.Join(dir, "client"))
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "script"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, `{"start":{}}`)
	for i := range int(length.Seconds()) * rate {
		fmt.Fprintf(w, `{"sleep_ms":%d}{"turn":{"prompt":"p","answer":"a","used":%d,"records":%t}}`+"\n", 1000/rate, 1000+i*977%190_000, !hooks)
	}
	fmt.Fprintln(w, `{"sleep_ms":3600000}`)
	return w.Flush()
}

// watch prints the resident memory of a process nine times: after each tenth of the
// time but the last one. It stops earlier if ctx ends. first is the memory after a
// fifth of the time, and last is the memory that was printed last.
func watch(ctx context.Context, pid int, state string, length time.Duration) (first, last int64, err error) {
	for n := 1; n < 10; n++ { // not after the last tenth, because ctx ends then too
		select {
		case <-time.After(length / 10):
		case <-ctx.Done():
			return first, last, nil
		}
		if last, err = resident(pid); err != nil {
			return 0, 0, fmt.Errorf("the wrapper ended early: %w", err)
		}
		if n == 2 {
			first = last
		}
		fmt.Printf("%8s  %6.1f MiB resident, ledger %7.1f MiB\n", time.Duration(n)*length/10, float64(last)/1024, float64(size(state))/(1<<20))
	}
	return first, last, nil
}

// resident is the resident memory of a process in KiB.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseInt(fields[0], 10, 64)
}

// size is the size of all files below a folder.
func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
