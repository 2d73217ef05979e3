package supervisor

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Files are the sources of one run: what a harness writes, decoded record by
// record. Its files are read on the watcher's goroutine; each of its databases
// and servers has one of its own.
type Files struct {
	// Fixed are watched from the launch on; Named is the form of a file that
	// the harness names itself.
	Fixed []profiles.Source
	Named profiles.Source
	// Since drops what was recorded earlier: a resumed session's file holds
	// its whole past, which is not news. Zero takes everything, and of tools no
	// more than which they are: to digest a long past takes its time.
	Since time.Time
	// AtEnd passes over what Fixed sources hold already.
	AtEnd bool
	// Runs says whether the process that a source names as its writer still runs:
	// a file may outlive it. nil believes every source.
	Runs func(telemetry.Process) bool
	// Getenv finds the password of a server; nil finds none.
	Getenv func(name string) string
	Log    zerolog.Logger

	watcher   *watchers.Watcher
	databases map[string]*database // by the path of each file of theirs
	servers   []*server
	post      func(kernel.Input)
	decoders  map[string]*decoder // by source and path; owned by the watcher's goroutine
}

// NewFiles checks that every source can be read. It reads nothing but how far
// the databases go whose past is to be passed over.
func NewFiles(f Files) (*Files, error) {
	f.decoders, f.databases = map[string]*decoder{}, map[string]*database{}
	files := &f
	for _, s := range f.Fixed {
		if err := files.fix(s); err != nil {
			return nil, err
		}
	}
	var err error
	files.watcher, err = watchers.New(watchers.Config{Deliver: files.deliver, Trouble: files.trouble})
	return files, err
}

// fix prepares a source that is no file.
func (f *Files) fix(s profiles.Source) error {
	switch s.Form {
	case profiles.Rows:
		return f.addDatabase(s)
	case profiles.Events:
		return f.addServer(s)
	}
	return nil
}

// Run follows the sources until ctx ends, and then each once more to its end.
func (f *Files) Run(ctx context.Context, post func(kernel.Input)) error {
	f.post = post
	var wg sync.WaitGroup
	for _, d := range f.each() {
		wg.Go(d.follow)
	}
	for _, s := range f.servers {
		wg.Go(func() { s.follow(ctx) })
	}
	err := f.watcher.Run(ctx)
	for _, d := range f.decoders {
		if d.Decoder != nil && d.Missed() > d.told {
			d.told = d.Missed()
			f.tellUnknown(d.source)
		}
	}
	for _, d := range f.each() {
		close(d.changed)
	}
	wg.Wait()
	return err
}

// Launched begins with the sources whose place is known, now that the process
// is.
func (f *Files) Launched(pid int) {
	for _, s := range f.Fixed {
		s.Path = strings.ReplaceAll(s.Path, "{pid}", strconv.Itoa(pid))
		switch s.Form {
		case profiles.Rows:
			f.watchDatabase(s)
		case profiles.Events: // asked for since Run
		default:
			f.follow(s, f.AtEnd || s.Form == profiles.Stamp && !f.Since.IsZero())
		}
	}
}

// Watch begins with a file that the harness named.
func (f *Files) Watch(path string) {
	if f.Named.Decoder != nil {
		s := f.Named
		s.Path = path
		f.follow(s, false)
	}
}

// follow begins with a file, or with those of a pattern, and with what belongs
// beside it.
func (f *Files) follow(s profiles.Source, atEnd bool) {
	f.watcher.Add(watchers.Spec{Source: s.Name, Form: form(s.Form), AtEnd: atEnd, Path: s.Path, Pattern: s.Pattern})
	if s.Beside != "" && s.Pattern == "" {
		f.watcher.Add(watchers.Spec{Source: s.Name, Form: form(s.Form), AtEnd: atEnd,
			Path: strings.TrimSuffix(s.Path, filepath.Ext(s.Path)), Pattern: s.Beside})
	}
}

// form is how the watcher calls a form of a file.
func form(f profiles.Form) watchers.Form {
	switch f {
	case profiles.Values:
		return watchers.Values
	case profiles.Whole:
		return watchers.Whole
	case profiles.Stamp:
		return watchers.Stamp
	}
	return watchers.Lines
}

// deliver decodes a record of a file. It runs on the watcher's goroutine.
func (f *Files) deliver(l watchers.Line) {
	if d := f.databases[l.Path]; d != nil {
		d.wake()
		return
	}
	if l.Gone {
		return
	}
	key := l.Source + "\x00" + l.Path
	d, ok := f.decoders[key]
	if !ok {
		d = f.decoderOf(l.Source)
		f.decoders[key] = d
	}
	if d.Decoder == nil {
		return
	}
	signals := d.read(l.Text)
	if d.missed() {
		f.tellUnknown(d.source)
	}
	if f.stale(d, signals) {
		return
	}
	if len(signals) > 0 {
		f.post(kernel.SignalsSeen{Signals: signals, Position: &kernel.Position{
			Path: l.Pos.Path, Dev: l.Pos.Dev, Ino: l.Pos.Ino, Prefix: l.Pos.Prefix, Offset: l.Pos.Offset}})
	}
}

// stale says that a file was left behind by a process that is gone: it tells
// what was, and of nothing that is.
func (f *Files) stale(d *decoder, signals []telemetry.Signal) bool {
	if f.Runs == nil || len(signals) == 0 || signals[0].Process == nil || f.Runs(*signals[0].Process) {
		d.stale = false
		return false
	}
	if !d.stale {
		d.stale = true
		f.tellTrouble(d.source, staleSource, nil)
	}
	return true
}

// staleSource is the trouble of a file whose writer is gone.
const staleSource = "stale"

// tellUnknown tells the counts of all files of one source together.
func (f *Files) tellUnknown(source string) {
	types := map[string]int{}
	for _, d := range f.decoders {
		if d.Decoder == nil || d.source != source {
			continue
		}
		for kind, n := range d.Unknown() {
			types[kind] += n
		}
	}
	f.post(kernel.UnknownSeen{Source: source, Types: types})
}

func (f *Files) trouble(t watchers.Trouble) {
	f.tellTrouble(t.Source, string(t.What), t.Err)
}

func (f *Files) tellTrouble(source, what string, err error) {
	f.Log.Warn().Str("source", source).Str("what", what).Err(err).Msg("a source")
	f.post(kernel.SourceTrouble{Source: source, What: what})
}

// A decoder is that of one file, database or server, nil when there is none,
// and from when on its signals are news.
type decoder struct {
	telemetry.Decoder
	source string
	since  time.Time
	told   int  // how many records it had missed when that was told last
	stale  bool // that its writer is gone was told
}

func (f *Files) decoderOf(source string) *decoder {
	for _, s := range append([]profiles.Source{f.Named}, f.Fixed...) {
		if s.Name == source {
			return f.newDecoder(s)
		}
	}
	return &decoder{source: source}
}

func (f *Files) newDecoder(s profiles.Source) *decoder {
	if s.Decoder == nil {
		return &decoder{source: s.Name}
	}
	d := s.Decoder()
	if !f.Since.IsZero() {
		telemetry.Digesting(d)
	}
	if s.Form == profiles.Stamp { // its past was passed over, and its time may be that of another machine's clock
		return &decoder{Decoder: d, source: s.Name}
	}
	return &decoder{Decoder: d, source: s.Name, since: f.Since}
}

// read decodes a record and drops what is no news.
func (d *decoder) read(record []byte) []telemetry.Signal {
	signals := d.Decode(record)
	if d.since.IsZero() {
		return signals
	}
	return slices.DeleteFunc(signals, func(s telemetry.Signal) bool { return !s.At.IsZero() && s.At.Before(d.since) })
}

// missed says when the number of records that it did not know has doubled: a
// file full of them must not make as many facts.
func (d *decoder) missed() bool {
	n := d.Missed()
	if n == 0 || n < 2*d.told {
		return false
	}
	d.told = n
	return true
}

// each returns every database once.
func (f *Files) each() []*database {
	var out []*database
	for _, path := range slices.Sorted(maps.Keys(f.databases)) {
		if d := f.databases[path]; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// errNoPath is told of a source that cannot be asked for without a place.
var errNoPath = errors.New("a source has no path")
