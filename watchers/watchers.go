// Package watchers follows the files that a harness writes. It delivers each
// whole line once, in order, with the position at which a later run resumes.
//
// One goroutine reads all files, and one fsnotify instance watches all folders.
// There is no ticker: an idle watcher never wakes. Only where watching fails (a
// limit of the kernel is reached, a folder is not readable) is a file polled.
// That is reported as a Trouble, because it is a degradation.
//
// It refuses to interpret what it reads (bytes pass unchanged, a partial line
// waits for its end), to guess which file is meant, and to write anything.
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
//	another inode under the path                the old file is read to its end through the
//	                                            open handle; replaced; read from the start
//	no file under the path                      deleted; the handle stays open, so that what a
//	                                            writer still appends is delivered too
//
// Three limits. A file that is rotated in and out between two looks is never
// seen. The watcher watches the file's folder, not the folders above it: when
// one of those is renamed, the next write below it shows that, or the end of the
// run. An unmounted file system shows at the end of the run.
package watchers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	defaultPollEvery = time.Second
	defaultMaxLine   = 64 << 20

	// chunk is the reading buffer. It fits a second-level cache; larger ones
	// did not read faster.
	chunk = 128 << 10
	// turn is how much of one file is read before the others get theirs, when
	// it is read aside.
	turn = 16 << 20
)

// Position is the durable cursor of one file: everything before it was told.
type Position struct {
	Path string
	Dev  uint64
	Ino  uint64
	// Prefix is the digest of the file's first min(1024, Offset) bytes, led by
	// their number: "312:9f86…". For a Whole file it covers all of the content,
	// of a Stamp file it is the time of its last change.
	Prefix string
	// Offset is the end of the last whole line or value told.
	Offset int64
}

// Spec asks for one file, or for all files of one name's pattern.
type Spec struct {
	Source string // name for evidence; Source, Path and Pattern together name the spec
	Path   string // absolute; the file and its folders may not exist yet
	// Pattern, when there is one, says that Path is a folder, and asks for each
	// file below it whose path from there matches, element by element as in
	// filepath.Match: "*/chats/session-*-1a2b3c4d.json". A file is followed from
	// when it appears, its lines are told under its own path. Each one found is
	// held open and each folder watched: the pattern should be a narrow one. A
	// file that was asked for by its path before goes on where that Spec says.
	Pattern string
	Form    Form      // how the file grows; Lines unless said
	From    *Position // go on there if the file is still the same one, else from its start; not with a Pattern
	AtEnd   bool      // without From: pass over the lines that are there already; of a Pattern's files, in those that are there
}

// A Form says how a file grows, and what is told of it.
type Form uint8

const (
	// Lines are appended, and each is told once.
	Lines Form = iota
	// Values are JSON values appended one behind another, over as many lines as
	// they like; each is told once, without the white space around it. One that
	// its writer did not finish is passed over when something else follows it.
	Values
	// Whole files are rewritten at each change: all of one is told when that
	// changed.
	Whole
	// Stamp files are not read: that one was written or touched is told, and when.
	Stamp
)

// Line is one line, or the content of a Whole file, or of a Stamp file the time
// of its change in RFC 3339.
type Line struct {
	Source string
	Path   string
	Text   []byte // without the newline after it; valid until the callback returns
	Pos    Position
	Gone   bool // a Whole or Stamp file was removed; Text is empty
}

// TroubleKind says what happened to a file other than that it grew.
type TroubleKind string

const (
	Polling     TroubleKind = "polling"       // no inotify for this file: it is polled until Recovered
	Truncated   TroubleKind = "truncated"     // shorter than before; when told lines were cut, it is read from the start
	Replaced    TroubleKind = "replaced"      // not the file of the position any more: read from the start
	Deleted     TroubleKind = "deleted"       // no file under this path any more
	Unreadable  TroubleKind = "unreadable"    // there, but it cannot be read
	LineTooLong TroubleKind = "line_too_long" // a line or value beyond Config.MaxLine was passed over
	Broken      TroubleKind = "broken"        // a value that cannot end was passed over, to the next line that begins one
	Recovered   TroubleKind = "recovered"     // polling, deleted or unreadable no longer holds
)

// Trouble is told besides the lines, in their order.
type Trouble struct {
	Source string
	Path   string // with a Spec's Pattern behind it, if all its files are meant
	What   TroubleKind
	Err    error // the cause, where there is one
}

// Config says to whom a Watcher tells what it sees. Both callbacks run on the
// goroutine of Run, or on one that it waits for, one at a time; while one runs
// nothing is read.
type Config struct {
	Deliver   func(Line)    // required
	Trouble   func(Trouble) // may be nil
	PollEvery time.Duration // only while inotify is not to be had; default 1 s
	MaxLine   int           // longest line (or Whole content) told; default 64 MiB
}

// Watcher follows any number of files. Add and Remove may be called from any
// goroutine, before and during Run, also from within a callback.
type Watcher struct {
	cfg Config

	mu      sync.Mutex // guards asked and started
	asked   []request
	started bool
	wake    chan struct{} // has room for one: there is something in asked

	// All below is owned by Run.

	watches
	tails   []*tail // in the order of Add
	byName  map[name]*tail
	away    []*tail // tails whose open file lost its path
	queue   []*tail // tails with something to do
	polled  int     // number of tails that are polled
	buf     []byte  // shared by all tails; nil until the first read
	headBuf [headSize]byte
}

type name struct{ source, path string }

type request struct {
	spec   Spec
	remove bool
}

// New checks the configuration. It opens nothing and starts nothing.
func New(cfg Config) (*Watcher, error) {
	if cfg.Deliver == nil {
		return nil, errors.New("new watcher: Config.Deliver is nil, nobody to tell lines to")
	}
	if cfg.PollEvery < 0 || cfg.MaxLine < 0 {
		return nil, fmt.Errorf("new watcher: PollEvery %v and MaxLine %d must not be negative", cfg.PollEvery, cfg.MaxLine)
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

// Add asks for a file. A second Add of the same source and path changes nothing.
func (w *Watcher) Add(s Spec) { w.ask(request{spec: s}) }

// Remove forgets a file after reading it to its end once more.
func (w *Watcher) Remove(source, path string) { w.RemovePattern(source, path, "") }

// RemovePattern does the same with all files that a Spec's pattern found.
func (w *Watcher) RemovePattern(source, path, pattern string) {
	w.ask(request{spec: Spec{Source: source, Path: path, Pattern: pattern}, remove: true})
}

func (w *Watcher) ask(r request) {
	w.mu.Lock()
	w.asked = append(w.asked, r)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // woken already
	}
}

// Run follows the files until ctx ends. Then it reads each of them to its end
// once more, tells what it finds, closes everything and returns.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.started
	w.started = true
	w.mu.Unlock()
	if again {
		return errors.New("run watcher: it ran already; make a new one")
	}
	defer w.close()

	var poll time.Time // when to look again at what is polled
	for {
		w.grant()
		w.work()
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

// sleep returns when there is something to do: at once if there is already,
// else with an event, an Add or Remove, at the time until (if that is not zero),
// or when ctx ends. It turns the events that came into work.
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

// grant does what Add and Remove asked for.
func (w *Watcher) grant() {
	w.mu.Lock()
	asked := w.asked
	w.asked = nil
	w.mu.Unlock()
	for _, r := range asked {
		if r.remove {
			w.forget(r.spec)
			continue
		}
		w.admit(r.spec, nil)
	}
}

// drop forgets a tail and all that is held for it.
func (w *Watcher) drop(t *tail) {
	w.follow(t, nil)
	w.setPolled(t, nil)
	w.setAway(t, false)
	t.close()
	t.todo = 0
	w.tails = slices.DeleteFunc(w.tails, func(o *tail) bool { return o == t })
	w.queue = slices.DeleteFunc(w.queue, func(o *tail) bool { return o == t })
	delete(w.byName, t.name())
}

func (w *Watcher) mark(t *tail, todo todo) {
	if t.todo == 0 {
		w.queue = append(w.queue, t)
	}
	t.todo |= todo
}

// work gives each tail in the queue one turn. Who is not done queues again.
func (w *Watcher) work() {
	queue := w.queue
	w.queue = nil
	clear(w.real)
	for _, t := range queue {
		todo := t.todo
		t.todo = 0
		var more bool
		if t.behind {
			aside(func() { more = w.turn(t, todo) })
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
		w.buf = nil // a long line is over: do not keep its room
	}
}

// turn does what a tail has to do, and reports whether there is more of it.
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

// finish reads every file to its present end. A writer that never pauses
// cannot hold it up: what comes later belongs to a later run. A file that is
// asked for because of one of these last lines is still read.
func (w *Watcher) finish() {
	for again := true; again; {
		again = false
		w.grant()
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
