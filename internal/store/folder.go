package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lifeloop/control"
	"lifeloop/evidence"
	"lifeloop/harness"
	"lifeloop/internal/durable"
	"lifeloop/internal/overlay"
	"lifeloop/kernel"
	"lifeloop/ledger"
)

// A Folder is the path of one session's folder.
type Folder string

// The files beside the ledger. Only their owner can read them.
const (
	socketFile  = "door"         // holds the path of the session's socket
	tokenFile   = "token"        // 64 hex digits and a newline (DECISIONS H6)
	commandFile = "command.json" // a CommandLine; removed when the session ends
	overlayFile = "overlay.json" // the record of package overlay; removed by Settle
	guardsFile  = "guards.json"  // the running guards; removed when the session ends
	anchorsFile = "anchors.json" // a Published
)

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// Size is the number of bytes in all files of the session.
func (f Folder) Size() (total int64) {
	_ = filepath.WalkDir(string(f), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // another process is removing the folder
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}

// Secure creates the session's folder and those above it up to the state directory.
// It returns an error if another user can read or replace one of them. The name of the
// session's folder is durable once [ledger.Log.Named] has returned.
func (f Folder) Secure() error {
	sessions := filepath.Dir(string(f))
	for _, dir := range []string{filepath.Dir(sessions), sessions} {
		if err := durable.Private(dir); err != nil {
			return err
		}
	}
	return durable.PrivateUnsynced(string(f))
}

// Discard removes the folder of a session that could not begin, unless another
// process uses it.
func (f Folder) Discard() {
	release, err := ledger.Hold(string(f))
	if err != nil {
		// The folder cannot be locked, perhaps because the user may not write in it.
		// Without a lock it is removed only if it is empty.
		_ = os.Remove(string(f))
		return
	}
	defer release()
	_ = os.RemoveAll(string(f))
}

// Overlay returns the path of the file that records a launch's overlay of the
// user's home.
func (f Folder) Overlay() string { return f.file(overlayFile) }

// Settle moves the files that a harness wrote in an overlay of the user's home to the
// home itself. A file that must not replace a real one gets another name in the same
// folder; kept lists those names.
func (f Folder) Settle() (kept []string, err error) { return overlay.Settle(f.Overlay()) }

// Live reports whether a wrapper has the session's ledger open.
func (f Folder) Live() bool { return ledger.Locked(string(f)) }

// Facts yields facts of a session. The parameter from is the smallest sequence number
// to yield. Not all earlier facts are checked. Facts stops at an unfinished last line;
// damage is an error.
//
// If the folder has the ledger of another session, the error is a
// *[FolderError].
func (f Folder) Facts(from uint64) iter.Seq2[kernel.Entry, error] {
	return facts(f.decode(ledger.ReadFrom(string(f), from), from))
}

// Follow is like Facts, but then waits for more facts. Follow ends after the last fact
// of the session, or when ctx ends. If the wrapper has died, Follow ends after
// everything that the wrapper wrote.
func (f Folder) Follow(ctx context.Context, from uint64) iter.Seq2[kernel.Entry, error] {
	return facts(f.FollowRecords(ctx, from))
}

// A Record is an entry with its digest.
type Record struct {
	kernel.Entry
	Digest string
}

// Records yields all entries of the session, each with its digest.
func (f Folder) Records() iter.Seq2[Record, error] {
	return f.decode(ledger.ReadFrom(string(f), 1), 1)
}

// FollowRecords is like Follow, but yields each entry with its digest.
func (f Folder) FollowRecords(ctx context.Context, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		// The ledger of a lost session has no entry that ends the session (see Final).
		// So the wait for new entries also ends when the wrapper has ended.
		alive, gone := context.WithCancel(ctx)
		defer gone()
		go func() {
			_ = ledger.AwaitWriter(string(f))
			gone()
		}()
		next := max(from, 1)
		forward := func(entries iter.Seq2[Record, error]) (more bool) {
			for e, err := range entries {
				next = e.Seq + 1
				if !yield(e, err) || err != nil || Final(e.Entry) {
					return false
				}
			}
			return true
		}
		if forward(f.decode(ledger.Follow(alive, string(f), next), next)) && ctx.Err() == nil {
			forward(f.decode(ledger.ReadFrom(string(f), next), next)) // the wrapper may have written more before it ended
		}
	}
}

// Final reports whether an entry is the last of its session.
func Final(e kernel.Entry) bool {
	m, ok := e.Fact.(kernel.SessionMoved)
	return ok && m.To.Terminal()
}

// facts yields records without their digests.
func facts(records iter.Seq2[Record, error]) iter.Seq2[kernel.Entry, error] {
	return func(yield func(kernel.Entry, error) bool) {
		for r, err := range records {
			if !yield(r.Entry, err) {
				return
			}
		}
	}
}

func (f Folder) decode(entries iter.Seq2[ledger.Entry, error], from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if from > 1 {
			if err := f.Check(); err != nil {
				yield(Record{}, err)
				return
			}
		}
		for e, err := range entries {
			switch {
			case errors.Is(err, ledger.ErrTornTail):
				return
			case err != nil:
				yield(Record{}, err)
				return
			case e.Seq < from:
				continue
			}
			fact, err := kernel.Decode(e.Kind, e.Body)
			if err == nil && e.Seq == 1 {
				err = f.owns(fact)
			}
			if !yield(Record{kernel.Entry{Seq: e.Seq, At: e.At, Fact: fact}, string(e.Digest)}, err) {
				return
			}
		}
	}
}

// A FolderError means that a folder does not contain the session that it is
// named after.
type FolderError struct {
	What string
	Fix  string // a hint for the user
}

func (e *FolderError) Error() string { return e.What + ": " + e.Fix }

// Check returns a *FolderError if the folder holds the ledger of another session, or if
// the session's ledger was deleted or emptied (see gone). Check reads at most one entry,
// and finds no other damage.
func (f Folder) Check() error {
	for e, err := range ledger.ReadFrom(string(f), 1) {
		if err != nil {
			return f.gone(err)
		}
		fact, err := kernel.Decode(e.Kind, e.Body)
		if err != nil {
			return nil // the ledger is not empty; Facts reports the unknown fact
		}
		return f.owns(fact)
	}
	return f.gone(nil)
}

// owns checks that the first fact of the ledger names this session.
func (f Folder) owns(first kernel.Fact) error {
	began, ok := first.(kernel.Began)
	sessions, id := filepath.Split(string(f))
	if !ok || !isID(id) || began.SessionID == "" || began.SessionID == id {
		return nil
	}
	return &FolderError{What: fmt.Sprintf("its folder holds the ledger of session %s", began.SessionID),
		Fix: fmt.Sprintf("move %s back to %s, or remove it", f, filepath.Join(sessions, began.SessionID))}
}

// exists reports whether the folder exists. It returns true if that cannot be determined.
func (f Folder) exists() bool {
	_, err := os.Lstat(string(f))
	return !errors.Is(err, fs.ErrNotExist)
}

// gone is called if no entry of the ledger could be read. It returns a *FolderError if
// another file shows that a missing ledger once existed, or that an empty ledger once had
// entries. err is the error of reading the ledger, or nil.
func (f Folder) gone(err error) error {
	// tokenFile is written before the first entry, so it does not show that an empty
	// ledger once had entries.
	what, shows := "its ledger is empty", []string{summaryFile}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what, shows = "its ledger is missing", []string{summaryFile, tokenFile}
	case err != nil:
		return nil
	}
	for _, name := range shows {
		if _, err := os.Lstat(f.file(name)); err == nil {
			return &FolderError{What: what, Fix: fmt.Sprintf("restore ledger-*.jsonl in %s from a copy, or remove that folder", f)}
		}
	}
	return nil
}

// WriterGone waits for the end of the session's wrapper, at most for patience, and
// reports whether the wrapper has ended.
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

// SetSocket records the path of the session's socket. The path depends on the
// wrapper's environment, so other commands cannot compute it.
func (f Folder) SetSocket(path string) error {
	return durable.PutFile(f.file(socketFile), []byte(path))
}

// Socket returns the path of the session's socket; fs.ErrNotExist while the
// session is starting.
func (f Folder) Socket() (string, error) {
	path, err := durable.ReadFile(f.file(socketFile))
	return string(path), err
}

// IssueToken creates the session's token and returns the digest of its digits.
func (f Folder) IssueToken() (digest string, err error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // rand.Read never fails
	digits := hex.EncodeToString(token)
	sum := sha256.Sum256([]byte(digits))
	return "sha256:" + hex.EncodeToString(sum[:]), durable.PutFile(f.file(tokenFile), []byte(digits+"\n"))
}

// Token returns the session's token: 64 hex digits. An observed session has
// none; the error is then fs.ErrNotExist.
func (f Folder) Token() (string, error) {
	text, err := durable.ReadFile(f.file(tokenFile))
	return strings.TrimSpace(string(text)), err
}

// A CommandLine is how a session was started. Its arguments may contain a
// prompt, so it is stored in a file and not as a fact.
type CommandLine struct {
	Dir   string
	Argv  []string
	Flags map[string][]string // the flags that were given, by name
}

// A word is a string of a command line. The system allows any bytes in it, but JSON
// only UTF-8, so a word that is not UTF-8 is stored as {"base64": …}.
type word string

type encodedWord struct {
	Base64 []byte `json:"base64"`
}

func (w word) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(w)) {
		return json.Marshal(string(w))
	}
	return json.Marshal(encodedWord{[]byte(w)})
}

func (w *word) UnmarshalJSON(text []byte) error {
	var encoded encodedWord
	if json.Unmarshal(text, &encoded) == nil && encoded.Base64 != nil {
		*w = word(encoded.Base64)
		return nil
	}
	return json.Unmarshal(text, (*string)(w))
}

// storedLine is a CommandLine as it is stored.
type storedLine struct {
	Dir   word              `json:"dir"`
	Argv  []word            `json:"argv"`
	Flags map[string][]word `json:"flags"`
}

// words converts each element of a list to the string type To.
func words[To, From ~string](list []From) []To {
	converted := make([]To, len(list))
	for i, w := range list {
		converted[i] = To(w)
	}
	return converted
}

// flags converts the values of each flag to the string type To.
func flags[To, From ~string](given map[string][]From) map[string][]To {
	converted := make(map[string][]To, len(given))
	for name, values := range given {
		converted[name] = words[To](values)
	}
	return converted
}

// SaveCommand writes the command line of a session. Errors are ignored: the
// session runs without the file, but to recover the session the user must then
// repeat the command.
func (f Folder) SaveCommand(c CommandLine) {
	if text, err := json.Marshal(storedLine{word(c.Dir), words[word](c.Argv), flags[word](c.Flags)}); err == nil {
		_ = durable.PutFile(f.file(commandFile), text)
	}
}

// Command returns the command line of a session.
func (f Folder) Command() (c CommandLine, err error) {
	var stored storedLine
	text, err := durable.ReadFile(f.file(commandFile))
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err == nil && len(stored.Argv) == 0 {
		err = errors.New(commandFile + " has no command")
	}
	return CommandLine{string(stored.Dir), words[string](stored.Argv), flags[string](stored.Flags)}, err
}

// SaveGuards records the running guards, for a wrapper that recovers the session. If
// this process is killed meanwhile, the file has the old list or the new one. After a
// crash of the machine no guard runs, so the file is not synced.
func (f Folder) SaveGuards(guards []harness.Process) {
	text, err := json.Marshal(guards)
	if err != nil {
		return
	}
	if durable.Cache(f.file(guardsFile), text, 0o600) != nil {
		_ = durable.PutFile(f.file(guardsFile), text) // a full disk may have no room for a new file
	}
}

// Published says which checkpoints ([evidence.Checkpoint]) of a session its wrapper has
// published as anchors ([evidence.Anchor]). It is not in the ledger: an entry about the
// last checkpoint would come after that checkpoint, and no checkpoint would cover the
// entry.
type Published struct {
	Last   evidence.Anchor `json:"last"`           // the newest published checkpoint
	Failed int             `json:"failed"`         // the number of checkpoints that could not be published
	From   int             `json:"from,omitempty"` // the oldest failed checkpoint that is not yet published; 0 if there is none
	Why    string          `json:"why"`            // the reason of the last failure; empty if Failed is 0
}

// Text describes p for people.
func (p Published) Text() string {
	if p.Failed == 0 {
		return fmt.Sprintf("published up to checkpoint %d", p.Last.Index)
	}
	checkpoints := "checkpoints"
	if p.Failed == 1 {
		checkpoints = "checkpoint"
	}
	newest := "no checkpoint has been published yet"
	if p.Last.Index > 0 {
		newest = fmt.Sprintf("the newest published checkpoint is %d", p.Last.Index)
	}
	return fmt.Sprintf("%d %s could not be published (%s): %s", p.Failed, checkpoints, newest, p.Why)
}

// SavePublished stores p. Errors are ignored: if p is not stored, a wrapper that recovers
// the session publishes a checkpoint again.
func (f Folder) SavePublished(p Published) {
	if text, err := json.Marshal(p); err == nil {
		_ = durable.Cache(f.file(anchorsFile), text, 0o600)
	}
}

// Published returns what SavePublished stored, or the zero value if it cannot be read.
func (f Folder) Published() (p Published) {
	text, err := durable.ReadFile(f.file(anchorsFile))
	if err != nil || json.Unmarshal(text, &p) != nil {
		return Published{}
	}
	return p
}

// AwaitGuards waits until the guards of the last wrapper have ended. A guard
// ends only after all processes that the wrapper or the harness started have ended. If
// a guard still runs after patience, AwaitGuards returns an error.
func (f Folder) AwaitGuards(patience time.Duration) error {
	var guards []harness.Process
	text, err := durable.ReadFile(f.file(guardsFile))
	if err != nil || json.Unmarshal(text, &guards) != nil {
		return nil // there was no guard, or the file is damaged
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		guards = slices.DeleteFunc(guards, func(p harness.Process) bool { return !harness.Runs(p.PID, p.Start) })
		switch {
		case len(guards) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("guard process %d is still ending the processes of the session's last wrapper", guards[0].PID)
		}
	}
}

// Forget removes the files that only a live or lost session needs, and the socket if
// a killed wrapper left it.
func (f Folder) Forget() {
	if socket, err := f.Socket(); err == nil {
		control.RemoveSocket(socket)
	}
	_ = os.Remove(f.file(commandFile))
	_ = os.Remove(f.file(guardsFile))
}
