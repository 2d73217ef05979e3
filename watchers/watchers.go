// Package watchers follows the files that a harness writes. It delivers each
// whole line once, in order, with the position at which a later run resumes.
//
// One goroutine reads all files, and one fsnotify instance watches all folders.
// There is no ticker: an idle watcher never wakes. A file is polled only if
// watching fails: for example, a limit of the kernel is reached, or a folder is not
// readable. Polling is reported as a Trouble, because it is a degradation.
//
// The package does not interpret what it reads, does not guess which file is
// meant, and writes nothing. Bytes are delivered unchanged, and a partial line
// only once it is complete.
//
//	w, err := watchers.New(watchers.Config{Deliver: func(l watchers.Line) { … }})
//	w.Add(watchers.Spec{Source: "transcript", Path: path, From: cursor})
//	wg.Go(func() { w.Run(ctx) })
//	…
//	cancel(); wg.Wait() // every file was read to its end once more
//
// A file is the same file as long as its device, its inode and its first bytes
// are the same, and it is not shorter than the position:
//
//	shorter than the position                   truncated, read from the start
//	other first bytes in the same inode         replaced, read from the start
//	another inode under the path                replaced: the old file is read to its end, then
//	                                            the new file from its start
//	no file under the path                      deleted; the handle stays open, so that lines
//	                                            that a writer still appends are delivered too
//
// There are three limits. A file that appears and disappears between two reads is not
// noticed. Only the file's own folder is watched: if a folder above it is renamed, the
// watcher notices this at the next write to the file or at the end of the run. An
// unmounted file system is noticed at the end of the run.
package watchers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	defaultPollEvery = time.Second
	defaultMaxLine   = 64 << 20

	// chunk is the size of the read buffer. It fits into the processor's
	// second-level cache; reading with larger buffers was not faster.
	chunk = 128 << 10
	// turn is how many bytes of one file are read at low priority before other
	// files are read.
	turn = 16 << 20
)

// Position is the durable cursor of one file: all bytes before the cursor were
// delivered or skipped.
type Position struct {
	Path string
	Dev  uint64
	Ino  uint64
	// Prefix is the length and the digest of the file's first min(1024, Offset)
	// bytes: "312:9f86…". For a Whole file it covers all of the content. For a Stamp
	// file it is the time of the last change.
	Prefix string
	// Offset is the end of the last line or value that was delivered or skipped, in
	// bytes. For a Whole or Stamp file it is the size.
	Offset int64
	// Last is the length and the digest of up to 1024 bytes directly before Offset. It
	// is empty unless Config.Ends is set.
	Last string
}

// Spec selects one file, or all files whose paths match a pattern.
type Spec struct {
	Source string // name of the source in each Line and Trouble; Source, Path and Pattern together identify the Spec
	Path   string // absolute; the file and its folders need not exist yet
	// Pattern, if not empty, selects files below the folder Path. Each element of
	// a file's relative path must match one element of the pattern, as in
	// filepath.Match: "*/chats/session-*-1a2b3c4d.json". A file is followed from
	// its creation, and its lines have its own path. The pattern should be
	// narrow, because each matching file is held open and each folder is
	// watched. A matching file that a Spec without a Pattern already follows, with the
	// same Source, keeps its position.
	Pattern string
	Form    Form      // how the file grows; Lines by default
	From    *Position // resume at this position if the file is still the same, otherwise read from its start; not with a Pattern
	AtEnd   bool      // if From is nil, skip the lines that exist already; files created later are read from their start
}

// A Form says how a file grows and what is delivered from it.
type Form uint8

const (
	// Lines are appended, and each is delivered once.
	Lines Form = iota
	// Values are JSON values appended one after another, each over any number of
	// lines. Each is delivered once, without the white space around it. An
	// unfinished value is skipped once something else follows it.
	Values
	// Whole files are rewritten at each change. The whole content is delivered
	// when it changed.
	Whole
	// Stamp files are not read. The time of each change is delivered.
	Stamp
)

// Line is one line or value, the content of a Whole file, or the time at which a
// Stamp file changed. The time has the format of RFC 3339.
type Line struct {
	Source string
	Path   string
	Text   []byte // without its newline; valid until the callback returns
	Pos    Position
	Gone   bool // a Whole or Stamp file was removed; Text is empty
}

// TroubleKind is what happened to a file, other than that it grew.
type TroubleKind string

const (
	Polling     TroubleKind = "polling"       // the file cannot be watched: it is polled until Recovered
	Truncated   TroubleKind = "truncated"     // the file became shorter; it is read from the start if delivered lines were cut off
	Replaced    TroubleKind = "replaced"      // another file has the path, or the file was rewritten; it is read from the start
	Deleted     TroubleKind = "deleted"       // the path no longer leads to a file
	Unreadable  TroubleKind = "unreadable"    // the file exists but cannot be read, or the Spec is invalid
	LineTooLong TroubleKind = "line_too_long" // a line or value longer than Config.MaxLine was skipped
	Broken      TroubleKind = "broken"        // text that is no JSON value was skipped, up to the next line that begins with { or [
	Recovered   TroubleKind = "recovered"     // the end of Polling, Deleted or Unreadable
)

// A Trouble reports what happened to a file. It comes at its place among the file's
// lines: for example, Replaced comes before the lines of the new file.
type Trouble struct {
	Source string
	Path   string // the path, followed by the Spec's Pattern if the trouble concerns all its files
	What   TroubleKind
	Err    error // the cause, if there is one
}

// Config holds the callbacks and limits of a Watcher. Callbacks run one at a
// time, on the goroutine of Run or on a goroutine for which Run waits. While a
// callback runs, nothing is read.
type Config struct {
	Deliver func(Line)    // required
	Trouble func(Trouble) // may be nil
	// Placed, if not nil, is called once for each file without a From, before the
	// file's first line. It gets the position at which reading begins. If the file does
	// not exist yet, the position has no inode. Placed is not called for Whole and
	// Stamp files.
	Placed func(source string, at Position)
	// Ends adds Last to the positions, so that a file that was rewritten in place
	// is not mistaken for one that grew.
	Ends      bool
	PollEvery time.Duration // the interval of polling files that cannot be watched; default 1 s
	MaxLine   int           // longest line, value or Whole content to deliver, in bytes; default 64 MiB
}

// Watcher follows any number of files. Add may be called from any goroutine, before
// and during Run, and from a callback.
type Watcher struct {
	cfg Config

	mu      sync.Mutex // guards added, calls and started
	added   []Spec     // added by Add, not followed yet
	calls   []func()   // added by Do, not called yet
	started bool
	wake    chan struct{} // has a buffer of one; awake fills it to end sleep

	// The fields below are owned by Run.

	watches
	tails   []*tail // in the order of Add
	byName  map[name]*tail
	away    []*tail // tails whose open file no longer has its path
	queue   []*tail // tails that have work to do
	polled  int     // number of tails that are polled
	buf     []byte  // shared by all tails; nil until a read needs it
	headBuf [headSize]byte
}

type name struct{ source, path string }

// New checks the configuration. It opens nothing and starts nothing.
func New(cfg Config) (*Watcher, error) {
	if cfg.Deliver == nil {
		return nil, errors.New("new watcher: Config.Deliver is nil")
	}
	if cfg.PollEvery < 0 || cfg.MaxLine < 0 {
		return nil, fmt.Errorf("new watcher: PollEvery %v or MaxLine %d is negative", cfg.PollEvery, cfg.MaxLine)
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func(Trouble) {}
	}
	if cfg.PollEvery == 0 {
		cfg.PollEvery = defaultPollEvery
	}
	if cfg.MaxLine == 0 {
		cfg.MaxLine = defaultMaxLine
	}
	return &Watcher{cfg: cfg, wake: make(chan struct{}, 1), byName: map[name]*tail{}, watches: newWatches()}, nil
}

// Add starts to follow a file, or the files of a pattern. A second Add of the same
// source, path and pattern changes nothing.
func (w *Watcher) Add(s Spec) {
	w.mu.Lock()
	w.added = append(w.added, s)
	w.mu.Unlock()
	w.awake()
}

// Do makes Run call f on its goroutine as soon as no file is known to have unread
// content. If f adds files, Run reads them before it calls the next function. Do returns
// at once. After the end of Run, f is not called.
func (w *Watcher) Do(f func()) {
	w.mu.Lock()
	w.calls = append(w.calls, f)
	w.mu.Unlock()
	w.awake()
}

func (w *Watcher) awake() {
	select {
	case w.wake <- struct{}{}:
	default: // wake is full, so Run is woken anyway
	}
}

// Run follows the files until ctx ends. Then it reads each file to its end once
// more, delivers the lines, closes everything and returns. A second Run is an
// error.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.started
	w.started = true
	w.mu.Unlock()
	if again {
		return errors.New("run watcher: Run was called before; make a new Watcher")
	}
	defer w.close()

	var poll time.Time // when to check the polled files again
	for {
		w.addSpecs()
		w.work()
		w.call()
		switch now := time.Now(); {
		case w.polled == 0:
			poll = time.Time{}
		case poll.IsZero():
			poll = now.Add(w.cfg.PollEvery)
		case !now.Before(poll):
			poll = now.Add(w.cfg.PollEvery)
			for _, t := range w.tails {
				if t.polled {
					w.mark(t, toLook)
				}
			}
		}
		w.sleep(ctx, poll)
		if ctx.Err() != nil {
			w.finish()
			return nil
		}
	}
}

// sleep returns at once if the queue is not empty. Otherwise it waits for an event, an
// error of the notifier, Add, Do, or the end of ctx. If until is not zero, sleep waits
// no longer than that time. Before it returns, it handles the events that have arrived.
func (w *Watcher) sleep(ctx context.Context, until time.Time) {
	var events chan fsnotify.Event
	var faults chan error
	if w.notify != nil {
		events, faults = w.notify.Events, w.notify.faults
	}
	if len(w.queue) == 0 {
		var due <-chan time.Time
		if !until.IsZero() {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-due:
		case ev := <-events:
			w.see(ev)
		case err := <-faults:
			w.fault(err)
			return
		}
	}
	for range len(events) {
		w.see(<-events)
	}
	select {
	case err := <-faults:
		w.fault(err)
	default:
	}
}

// addSpecs begins to follow the files of the Specs that were passed to Add.
func (w *Watcher) addSpecs() {
	w.mu.Lock()
	added := w.added
	w.added = nil
	w.mu.Unlock()
	for _, s := range added {
		w.addSpec(s)
	}
}

// call calls the next function that was passed to Do, unless there is something to
// read. It reports whether a function was waiting.
func (w *Watcher) call() bool {
	w.mu.Lock()
	if waits := len(w.calls) > 0; !waits || len(w.added) > 0 || len(w.queue) > 0 {
		w.mu.Unlock()
		return waits
	}
	f := w.calls[0]
	w.calls = w.calls[1:]
	w.mu.Unlock()
	f()
	w.awake() // so that Run calls the next function too
	return true
}

func (w *Watcher) mark(t *tail, todo todo) {
	if t.todo == 0 {
		w.queue = append(w.queue, t)
	}
	t.todo |= todo
}

// work gives each tail in the queue one turn. A tail that has more to read is
// queued again.
func (w *Watcher) work() {
	queue := w.queue
	w.queue = nil
	clear(w.real)
	for _, t := range queue {
		todo := t.todo
		t.todo = 0
		var more bool
		if t.behind {
			atLowPriority(func() { more = w.turn(t, todo) })
		} else {
			more = w.turn(t, todo)
		}
		t.behind = more
		if more {
			w.mark(t, toRead)
		}
	}
	if w.queue == nil {
		w.queue = queue[:0]
	}
	if len(w.buf) > chunk && len(w.queue) == 0 {
		w.buf = nil // free a buffer that had grown for a long line
	}
}

// turn does the pending work of a tail, and reports whether there is more to read.
func (w *Watcher) turn(t *tail, todo todo) bool {
	if todo&toLook != 0 || t.file == nil || t.failed {
		return w.look(t)
	}
	more := w.read(t, false)
	if !more && !t.current() {
		more = w.look(t)
	}
	return more
}

// finish reads every file to its present end. Later lines are left to the next run,
// so that a writer that never pauses cannot delay finish. A file that a callback adds
// meanwhile is still read.
func (w *Watcher) finish() {
	for again := true; again; again = w.call() || again {
		again = false
		w.addSpecs()
		w.queue = nil // each file is read below
		for _, t := range w.tails {
			if t.last {
				continue
			}
			t.last, again = true, true
			w.look(t)
		}
	}
}

func (w *Watcher) close() {
	for _, t := range w.tails {
		t.close()
	}
	w.closeNotify()
}

func (w *Watcher) report(t *tail, what TroubleKind, err error) {
	w.cfg.Trouble(Trouble{t.Source, t.name().path, what, err})
}
