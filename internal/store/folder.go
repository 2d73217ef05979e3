package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lifeloop/harness"
	"lifeloop/kernel"
	"lifeloop/ledger"
)

// A Folder is the path of one session's folder.
type Folder string

// The files beside the ledger. All are readable by their owner only.
const (
	socketFile  = "door"         // the path of the session's socket
	tokenFile   = "token"        // 64 hex digits and a newline (DECISIONS H6)
	commandFile = "command.json" // a CommandLine; removed when the session ends
	guardsFile  = "guards.json"  // the guards that run; removed when the session ends
)

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// Live reports whether a wrapper has the session's ledger open.
func (f Folder) Live() bool { return ledger.Locked(string(f)) }

// Facts yields the facts of a session from sequence number from on. It stops
// at an unfinished last line; damage is an error.
func (f Folder) Facts(from uint64) iter.Seq2[kernel.Entry, error] {
	return decode(ledger.Read(string(f)), from)
}

// Follow yields the facts of a session from sequence number from on, and waits
// for more. It ends after the last fact of the session, when the wrapper is
// gone and all that it wrote has been read, or when ctx ends.
func (f Folder) Follow(ctx context.Context, from uint64) iter.Seq2[kernel.Entry, error] {
	return func(yield func(kernel.Entry, error) bool) {
		// A lost session has no last fact: the end of its wrapper ends the wait.
		alive, gone := context.WithCancel(ctx)
		defer gone()
		go func() {
			_ = ledger.AwaitWriter(string(f))
			gone()
		}()
		next := max(from, 1)
		forward := func(entries iter.Seq2[kernel.Entry, error]) (more bool) {
			for e, err := range entries {
				next = e.Seq + 1
				if !yield(e, err) || err != nil || Final(e) {
					return false
				}
			}
			return true
		}
		if forward(decode(ledger.Follow(alive, string(f), next), next)) && ctx.Err() == nil {
			forward(f.Facts(next)) // what the wrapper wrote just before it ended
		}
	}
}

// Final reports whether an entry is the last of its session.
func Final(e kernel.Entry) bool {
	m, ok := e.Fact.(kernel.SessionMoved)
	return ok && m.To.Terminal()
}

func decode(entries iter.Seq2[ledger.Entry, error], from uint64) iter.Seq2[kernel.Entry, error] {
	return func(yield func(kernel.Entry, error) bool) {
		for e, err := range entries {
			switch {
			case errors.Is(err, ledger.ErrTornTail):
				return
			case err != nil:
				yield(kernel.Entry{}, err)
				return
			case e.Seq < from:
				continue
			}
			fact, err := kernel.Decode(e.Kind, e.Body)
			if !yield(kernel.Entry{Seq: e.Seq, At: e.At, Fact: fact}, err) {
				return
			}
		}
	}
}

// WriterGone waits up to patience for the end of the session's wrapper and
// reports whether it came.
func (f Folder) WriterGone(patience time.Duration) bool {
	gone := make(chan struct{})
	go func() {
		_ = ledger.AwaitWriter(string(f))
		close(gone)
	}()
	select {
	case <-gone:
		return true
	case <-time.After(patience):
		return false
	}
}

// SetSocket records the path of the session's socket. It depends on the
// wrapper's environment, so other commands cannot compute it.
func (f Folder) SetSocket(path string) error {
	return os.WriteFile(f.file(socketFile), []byte(path), 0o600)
}

// Socket returns the path of the session's socket; fs.ErrNotExist while the
// session is starting.
func (f Folder) Socket() (string, error) {
	path, err := os.ReadFile(f.file(socketFile))
	return string(path), err
}

// IssueToken creates the session's token and returns the digest of its digits.
func (f Folder) IssueToken() (digest string, err error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	digits := hex.EncodeToString(token)
	sum := sha256.Sum256([]byte(digits))
	return "sha256:" + hex.EncodeToString(sum[:]), os.WriteFile(f.file(tokenFile), []byte(digits+"\n"), 0o600)
}

// Token returns the session's token: 64 hex digits. An observed session has
// none; the error is then fs.ErrNotExist.
func (f Folder) Token() (string, error) {
	text, err := os.ReadFile(f.file(tokenFile))
	return strings.TrimSpace(string(text)), err
}

// A CommandLine is how a session was started. Its arguments may hold a prompt,
// so it is not a fact.
type CommandLine struct {
	Dir   string              `json:"dir"`
	Argv  []string            `json:"argv"`
	Flags map[string][]string `json:"flags"` // those that were given, by name
}

// SaveCommand writes the command line of a session. An error is ignored: the
// session runs as well, and recovering it then needs the command again.
func (f Folder) SaveCommand(c CommandLine) { f.save(commandFile, c) }

// Command returns the command line of a session.
func (f Folder) Command() (c CommandLine, err error) {
	text, err := os.ReadFile(f.file(commandFile))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && len(c.Argv) == 0 {
		err = errors.New("it names no command")
	}
	return c, err
}

// SaveGuards records which guards run, for a wrapper that recovers the session.
func (f Folder) SaveGuards(guards []harness.Process) { f.save(guardsFile, guards) }

func (f Folder) save(name string, v any) {
	if text, err := json.Marshal(v); err == nil {
		_ = os.WriteFile(f.file(name), text, 0o600)
	}
}

// AwaitGuards waits until the guards of the last wrapper, and with them all
// processes that it started, have ended. After patience it returns an error.
func (f Folder) AwaitGuards(patience time.Duration) error {
	var guards []harness.Process
	text, err := os.ReadFile(f.file(guardsFile))
	if err != nil || json.Unmarshal(text, &guards) != nil {
		return nil // there was none, or the wrapper died while writing this file
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		guards = slices.DeleteFunc(guards, func(p harness.Process) bool { return !harness.Runs(p.PID, p.Start) })
		switch {
		case len(guards) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("guard process %d is still ending what the session's last wrapper started", guards[0].PID)
		}
	}
}

// Forget removes the files that only a live or lost session needs.
func (f Folder) Forget() {
	_ = os.Remove(f.file(commandFile))
	_ = os.Remove(f.file(guardsFile))
}
