//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// follow measures the time from a record appended to a file to its event on the
// stdout of observe. The floor is a reader that copies the line without decoding it.
func follow(b *bench) []row {
	reader := func(path string) []string { return []string{b.program("reader"), path} }
	observe := func(path string) []string {
		return []string{b.wrap, "observe", "--adapter", "claude", "--follow", path}
	}
	var appends []func(int) time.Duration
	for i, argv := range []func(string) []string{reader, reader, observe} {
		f := b.follower(fmt.Sprintf("follower%d", i), argv)
		defer f.kill()
		if i == 2 {
			f.events, f.first = 2, 4
		}
		appends = append(appends, func(n int) time.Duration {
			time.Sleep(time.Millisecond) // let the readers sleep, as in a session
			return f.append(followed(n))
		})
	}
	t := inTurn(b.rounds*20, appends...)
	self := t.pairs(0, 1)
	return []row{
		self.ratioRow("time from an appended line to the output of a minimal reader, measured twice: the noise of these measurements"),
		t.pairs(0, 2).ratioRow("time from an appended record to its printed event, compared with the minimal reader").atMost(max(1.25, at(self.ratios(), 0.75))),
	}
}

// followed returns the nth record: prompts and ends of turns alternate.
func followed(n int) string {
	if n%2 == 1 {
		return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"type":"system","subtype":"turn_duration","durationMs":1,"uuid":"a8288e10-b0b3-4be9-8c52-%012x","timestamp":"2026-11-21T07:58:56.996Z","sessionId":"6c863749-d581-44fb-8d8f-c4912cb31fb2"}`+"\n", n)
	}
	return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"promptId":"d2f08b97-dd37-47ac-8e6a-%012x","type":"user","message":{"role":"user","content":"%01000d"},"uuid":"f8288e10-b0b3-4be9-8c52-%012x","timestamp":"2026-11-21T07:58:56.906Z","origin":{"kind":"human"},"promptSource":"typed","sessionId":"6c863749-d581-44fb-8d8f-c4912cb31fb2","version":"2.1.197"}`+"\n", n/2, 0, n)
}

// A follower is a process that follows a file, together with the process's output and
// that file, opened for appending.
type follower struct {
	cmd  *exec.Cmd
	file *os.File
	out  *bufio.Reader
	// events is the number of output lines per record. first is the number of output
	// lines for the first record.
	events, first int
}

// follower starts a program that follows a new file, and waits until the program
// watches the file.
func (b *bench) follower(name string, argv func(path string) []string) *follower {
	path := filepath.Join(b.program(name+"-dir"), "transcript.jsonl")
	must(os.Mkdir(filepath.Dir(path), 0o700))
	f := &follower{events: 1, first: 1, file: got(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))}
	f.cmd = b.command(argv(path)...)
	f.cmd.Stderr = os.Stderr
	f.out = bufio.NewReader(got(f.cmd.StdoutPipe()))
	must(f.cmd.Start())
	b.watched(f.cmd.Process.Pid)
	return f
}

// watched waits until the process has an inotify watch.
func (b *bench) watched(pid int) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
		for _, info := range infos {
			content, _ := os.ReadFile(info)
			if bytes.Contains(content, []byte("inotify wd:")) {
				return
			}
		}
	}
	must(fmt.Errorf("process %d has no inotify watch", pid))
}

// append appends a record and measures the time to the first of its events.
func (f *follower) append(record string) time.Duration {
	began := time.Now()
	got(f.file.WriteString(record))
	got(f.out.ReadSlice('\n'))
	took := time.Since(began)
	for range f.first - 1 {
		got(f.out.ReadSlice('\n'))
	}
	f.first = f.events
	return took
}

func (f *follower) kill() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
	_ = f.file.Close()
}
