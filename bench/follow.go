//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// follow measures the time from a record appended to a file to its event on the
// stdout of observe. The floor is a reader that copies the line without decoding it.
func follow(b *bench) (rows []row, err error) {
	reader := func(path string) []string { return []string{b.program("reader"), path} }
	observe := func(path string) []string {
		return []string{b.wrap, "observe", "--adapter", "claude", "--follow", path}
	}
	var all []*follower
	defer func() {
		for _, f := range all {
			f.kill()
		}
	}()
	for i, argv := range []func(string) []string{reader, reader, observe} {
		f, err := b.follower(fmt.Sprintf("follower%d", i), argv)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	all[2].events, all[2].first = 2, 4

	var self, ours pairs
	for n := range b.rounds * 20 {
		// Prompts and ends of turns alternate.
		record := fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"promptId":"d2f08b97-dd37-47ac-8e6a-%012x","type":"user","message":{"role":"user","content":"%01000d"},"uuid":"f8288e10-b0b3-4be9-8c52-%012x","timestamp":"2026-11-21T07:58:56.906Z","origin":{"kind":"human"},"promptSource":"typed","sessionId":"6c863749-d581-44fb-8d8f-c4912cb31fb2","version":"2.1.197"}`+"\n", n/2, 0, n)
		if n%2 == 1 {
			record = fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"type":"system","subtype":"turn_duration","durationMs":1,"uuid":"a8288e10-b0b3-4be9-8c52-%012x","timestamp":"2026-11-21T07:58:56.996Z","sessionId":"6c863749-d581-44fb-8d8f-c4912cb31fb2"}`+"\n", n)
		}
		took := make([]time.Duration, len(all))
		for _, which := range rand.Perm(len(all)) {
			time.Sleep(time.Millisecond) // let the readers sleep, as in a session
			if took[which], err = all[which].append(record); err != nil {
				return nil, err
			}
		}
		self.add(took[0], took[1])
		ours.add(took[0], took[2])
	}
	decoded := ours.ratioRow("from an appended record to its event on stdout / the minimal reader").atMost(max(1.25, at(self.ratios(), 0.75)), &ours)
	return []row{self.ratioRow("from an appended line to stdout: a minimal reader / itself"), decoded}, nil
}

// A follower is a process that follows a file, and its output.
type follower struct {
	cmd  *exec.Cmd
	file *os.File
	out  *bufio.Reader
	// events is the number of output lines per record, and first that of the first
	// record.
	events, first int
}

// follower starts a program on a file of its own.
func (b *bench) follower(name string, argv func(path string) []string) (*follower, error) {
	dir := b.program(name + "-dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f := &follower{events: 1, first: 1}
	path := filepath.Join(dir, "transcript.jsonl")
	var err error
	if f.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	f.cmd = b.command(argv(path)...)
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.out = bufio.NewReader(out)
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	return f, b.watched(f.cmd.Process.Pid)
}

// watched waits until the process has an inotify watch.
func (b *bench) watched(pid int) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
		for _, info := range infos {
			content, _ := os.ReadFile(info)
			if bytes.Contains(content, []byte("inotify wd:")) {
				return nil
			}
		}
	}
	return fmt.Errorf("process %d has no inotify watch", pid)
}

// append appends a record and measures the time to the first of its events.
func (f *follower) append(record string) (time.Duration, error) {
	began := time.Now()
	if _, err := f.file.WriteString(record); err != nil {
		return 0, err
	}
	_, err := f.out.ReadSlice('\n')
	took := time.Since(began)
	rest := f.first
	f.first = f.events
	for range rest - 1 {
		if err == nil {
			_, err = f.out.ReadSlice('\n')
		}
	}
	return took, err
}

func (f *follower) kill() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
	_ = f.file.Close()
}
