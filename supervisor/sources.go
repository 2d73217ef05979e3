package supervisor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Files are the sources of one run: the files, databases and servers of a
// harness, decoded record by record. Files are read on the watcher's goroutine;
// each database and each server has a goroutine of its own.
type Files struct {
	// Fixed are the sources that are read from the launch on. Named describes a
	// file whose path the harness reports.
	Fixed []profiles.Source
	Named profiles.Source
	// Since is the time before which records are dropped, because the file of a
	// continued session contains its whole past. If Since is zero, every record is
	// used, and tool calls get no digests: computing them for a long past is slow.
	// A launch sets Since; an observer does not. If Since is set, the signals that a
	// database's decoder holds back are posted at the end. An observer does not post
	// these signals, because the harness may still run.
	Since time.Time
	// AtEnd skips the present content of Fixed sources.
	AtEnd bool
	// Runs reports whether the process that a source names as its writer still
	// runs, because a file may outlive it. nil accepts every source.
	Runs func(telemetry.Process) bool
	// Getenv returns the password of a server; nil returns none.
	Getenv func(name string) string
	// Positions makes Run post the position at which the reading of each file begins.
	// An observer with a ledger sets Positions, because it resumes at stored positions.
	Positions bool
	// Sessions, if not nil, chooses the harness session whose records are posted. Fixed
	// has the sources of the first session, if this session is known at the start.
	Sessions Chooser
	Log      zerolog.Logger

	watcher   *watchers.Watcher
	starts    *sync.Map            // the time before which a file's records are dropped, by the stem of its path
	each      []*database          // the databases, each once
	databases map[string]*database // the databases, by the path of each of their files
	servers   []*server
	post      func(input.Input)
	decoders  map[string]*decoder  // the decoders, by source and path (SOURCE\x00PATH); owned by the watcher's goroutine
	past      []*readSource        // how far a killed observation read; nil if none is resumed
	missed    []string             // sources for which Run reports that records may be missing
	floors    map[string]time.Time // for each source, the time before which signals were already observed
	trouble   input.Trouble        // the last trouble of the Named file; owned by the watcher's goroutine
	ends      bool                 // sets Config.Ends of the watcher, as Positions does
}

// A Chooser decides which harness session an observer, or a launch without hooks, follows.
// [Successors], [Switches] and [Moves] are the choosers. All methods except start are
// called on the goroutine that delivers records.
type Chooser interface {
	// start is called before the sources of the first session are followed.
	start(f *Files)
	// notice handles a record of a source that only the chooser reads. It returns false
	// for a record of another source.
	notice(l watchers.Line) bool
	// sees posts the signals of a record of a file or a database, or keeps them.
	sees(path string, in input.SignalsSeen)
	// handled is called after a record of a session file was handled.
	handled(at watchers.Position)
	// shown is called with each signal of the terminal, and with the time of the signal.
	shown(sig telemetry.Signal, at time.Time)
	// end is called once, when Run stops: after ctx has ended and each file was read to
	// its end for the last time.
	end()
}

// NewFiles checks the paths of databases and the addresses of servers. It reads
// only the last position of those databases whose present content is to be skipped.
func NewFiles(f Files) (*Files, error) {
	f.starts, f.decoders, f.databases, f.floors = new(sync.Map), map[string]*decoder{}, map[string]*database{}, map[string]time.Time{}
	files := &f
	for _, s := range f.Fixed {
		var err error
		switch s.Form {
		case profiles.Rows:
			err = files.addDatabase(s)
		case profiles.Events:
			err = files.addServer(s)
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	cfg := watchers.Config{Deliver: files.deliver, Trouble: func(t watchers.Trouble) {
		if t.Source == files.Named.Name {
			files.trouble = ofFileTrouble(t.What)
		}
		files.reportTrouble(t.Source, ofFileTrouble(t.What), t.Err)
	}}
	cfg.Ends = f.ends || f.Positions
	if f.Positions {
		cfg.Placed = func(source string, at watchers.Position) {
			files.post(input.SignalsSeen{Source: source, Position: new(input.Position(at))})
		}
	}
	files.watcher, err = watchers.New(cfg)
	return files, err
}

// Run reads the sources until ctx ends, and then reads each file and database once
// more to its end.
func (f *Files) Run(ctx context.Context, post func(input.Input)) error {
	f.post = post
	for _, source := range f.missed {
		f.reportTrouble(source, input.TroubleMissed, nil)
	}
	var wg sync.WaitGroup
	for _, d := range f.each {
		wg.Go(d.follow)
	}
	for _, s := range f.servers {
		wg.Go(func() { s.follow(ctx) })
	}
	err := f.watcher.Run(ctx)
	if f.Sessions != nil {
		f.Sessions.end()
	}
	for _, d := range f.decoders {
		if d.missed(true) {
			f.reportUnknown(d.source)
		}
	}
	for _, d := range f.each {
		close(d.changed)
	}
	wg.Wait()
	return err
}

// Launched starts following the Fixed sources. In a path, {pid} is replaced
// by the harness's pid.
func (f *Files) Launched(pid int) {
	if f.Sessions != nil {
		f.Sessions.start(f)
	}
	for _, s := range f.Fixed {
		s.Path = strings.ReplaceAll(s.Path, "{pid}", strconv.Itoa(pid))
		switch s.Form {
		case profiles.Rows:
			f.watchDatabase(s)
		case profiles.Events: // Run reads these
		default:
			f.follow(s, f.AtEnd || s.Form == profiles.Stamp && !f.Since.IsZero())
		}
	}
}

// Shown passes the signals of the terminal to the chooser and then posts them, on the
// watcher's goroutine. It returns at once. The watcher first reads the content that it
// knows to be unread. If the chooser then finds a session by the signals, the watcher also
// reads the files of that session before the signals are posted.
func (f *Files) Shown(signals []telemetry.Signal) {
	at := time.Now()
	f.watcher.Do(func() {
		for _, sig := range signals {
			f.Sessions.shown(sig, at)
		}
	})
	f.watcher.Do(func() { f.post(input.SignalsSeen{Signals: signals}) })
}

// Watch starts following a file that the harness named, and the files beside that file.
// Records of these files with a time before since are dropped.
func (f *Files) Watch(path string, since time.Time) {
	if f.Named.Decoder == nil {
		return
	}
	f.starts.Store(stem(path), since)
	s := f.Named
	s.Path = path
	f.follow(s, false)
}

// stem returns a path without the extension of its file name. The result is also the path
// of the folder with the files that a source's Beside names.
func stem(path string) string { return strings.TrimSuffix(filepath.Clean(path), filepath.Ext(path)) }

// begun returns the time before which the records of a file are dropped. starts has this
// time for the file's own stem, or for a stem that is a folder above the file.
func (f *Files) begun(path string) (since time.Time) {
	f.starts.Range(func(at, t any) bool {
		if stem(path) == at || strings.HasPrefix(path, at.(string)+"/") {
			since = t.(time.Time)
		}
		return since.IsZero()
	})
	return since
}

// follow starts following a file, or the files of a pattern, and the files that the
// source's Beside names.
func (f *Files) follow(s profiles.Source, atEnd bool) {
	specs := []watchers.Spec{{Source: s.Name, Form: form(s.Form), AtEnd: atEnd, Path: s.Path, Pattern: s.Pattern}}
	if s.Beside != "" && s.Pattern == "" {
		specs = append(specs, specs[0])
		specs[1].Path, specs[1].Pattern = stem(s.Path), s.Beside
	}
	for _, spec := range specs {
		f.resumed(&spec)
		f.watcher.Add(spec)
	}
}

// form converts a form to the watchers' type.
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
	if f.Sessions != nil && f.Sessions.notice(l) || l.Gone {
		return
	}
	if f.Sessions != nil && l.Source == f.Named.Name {
		defer f.Sessions.handled(l.Pos)
	}
	key := l.Source + "\x00" + l.Path
	d, ok := f.decoders[key]
	if !ok {
		d = f.decoderOf(l.Source)
		d.since = later(d.since, f.begun(l.Path))
		f.decoders[key] = d
	}
	if d.Decoder == nil {
		return
	}
	signals := d.read(l.Text)
	if d.missed(false) {
		f.reportUnknown(d.source)
	}
	if f.stale(d, signals) {
		return
	}
	if len(signals) > 0 {
		f.pass(l.Path, input.SignalsSeen{Signals: signals, Source: l.Source, Position: new(input.Position(l.Pos))})
	}
}

// pass posts the signals of a record, if no chooser keeps them.
func (f *Files) pass(path string, in input.Input) {
	if seen, ok := in.(input.SignalsSeen); ok && f.Sessions != nil {
		f.Sessions.sees(path, seen)
		return
	}
	f.post(in)
}

// Transcripts lists the files of the harness's conversations that were read, with
// those of sub-agents. A database is not one of them. Run must have returned.
func (f *Files) Transcripts() (paths []string) {
	for key := range f.decoders {
		if source, path, _ := strings.Cut(key, "\x00"); source == f.Named.Name {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// stale reports whether the process that wrote a file has ended, so that the file no
// longer describes the present.
func (f *Files) stale(d *decoder, signals []telemetry.Signal) bool {
	if f.Runs == nil || len(signals) == 0 || signals[0].Process == nil || f.Runs(*signals[0].Process) {
		d.stale = false
		return false
	}
	if !d.stale {
		d.stale = true
		f.reportTrouble(d.source, input.TroubleStale, nil) // the process that wrote the file has ended
	}
	return true
}

// reportUnknown posts how many records of each type were unknown in all files of
// one source.
func (f *Files) reportUnknown(source string) {
	types := map[string]int{}
	for _, d := range f.decoders {
		if d.Decoder == nil || d.source != source {
			continue
		}
		for kind, n := range d.Unknown() {
			types[kind] += n
		}
	}
	f.post(input.UnknownSeen{Source: source, Types: types})
}

func (f *Files) reportTrouble(source string, what input.Trouble, err error) {
	f.Log.Warn().Str("source", source).Str("what", string(what)).Err(err).Msg("trouble with a source")
	if source == listSource || source == filesSource {
		return // no capability depends on listSource or filesSource
	}
	f.post(input.SourceTrouble{Source: source, What: what})
}

// A decoder decodes the records of one file, query or server. Its Decoder is nil if
// the source's records are not decoded.
type decoder struct {
	telemetry.Decoder
	source   string
	since    time.Time // earlier signals are dropped
	reported int       // the number of unknown records in the last report
	stale    bool      // it was reported that the writer has ended
	windows  profiles.Windows
	here     map[string]bool        // for each harness session, whether its folder is windows.Dir
	models   map[string]modelWindow // the windows of models that were looked up
}

type modelWindow struct {
	tokens int64
	source string
}

// maxKnown is the largest number of sessions, and of models, that a decoder remembers.
const maxKnown = 4096

func (f *Files) decoderOf(source string) *decoder {
	if s := f.source(source); s.Name != "" {
		d := f.newDecoder(s)
		d.since = later(d.since, f.floors[source])
		return d
	}
	return &decoder{source: source}
}

// source returns the first source with the given name, or an empty Source.
func (f *Files) source(name string) profiles.Source {
	for _, s := range append([]profiles.Source{f.Named}, f.Fixed...) {
		if s.Name == name {
			return s
		}
	}
	return profiles.Source{}
}

func (f *Files) newDecoder(s profiles.Source) *decoder {
	d := &decoder{source: s.Name, windows: s.Windows, here: map[string]bool{}, models: map[string]modelWindow{}}
	if s.Decoder == nil {
		return d
	}
	d.Decoder = s.Decoder()
	if !f.Since.IsZero() {
		telemetry.Digesting(d.Decoder)
	}
	// A Stamp file needs no since, because Launched sets AtEnd for it. Its records are the
	// modification times of the file, which another machine's clock may have set.
	if s.Form != profiles.Stamp {
		d.since = f.Since
	}
	return d
}

// read decodes a record and drops signals with a time before d.since.
func (d *decoder) read(record []byte) []telemetry.Signal {
	signals := d.Decode(record)
	if d.windows.Of != nil {
		d.addWindows(signals)
	}
	return d.recent(signals)
}

// recent drops signals with a time before d.since.
func (d *decoder) recent(signals []telemetry.Signal) []telemetry.Signal {
	if d.since.IsZero() {
		return signals
	}
	return slices.DeleteFunc(signals, func(s telemetry.Signal) bool { return !s.At.IsZero() && s.At.Before(d.since) })
}

// addWindows sets the size of the context window in usage signals that have none. The
// size is that of the signal's model in d.windows.
func (d *decoder) addWindows(signals []telemetry.Signal) {
	for i := range signals {
		s := &signals[i]
		switch {
		case s.Kind == telemetry.SessionLive && s.Dir != "":
			if len(d.here) >= maxKnown {
				clear(d.here)
			}
			d.here[s.Session] = s.Dir == d.windows.Dir
		case s.Kind == telemetry.UsageSeen && s.Window == 0 && s.Agent == "" && s.Side == "" && (d.windows.Dir == "" || d.here[s.Session]):
			if w := d.windowOf(s.Model); w.tokens > 0 {
				s.Window, s.WindowSource = w.tokens, w.source
			}
		}
	}
}

func (d *decoder) windowOf(model string) modelWindow {
	w, ok := d.models[model]
	if !ok {
		if len(d.models) >= maxKnown {
			clear(d.models)
		}
		w.tokens, w.source = d.windows.Of(model)
		d.models[model] = w
	}
	return w
}

// missed reports whether the number of unknown records should be posted: at the end if
// it has grown since the last report, and before that only if it has doubled. So a file
// full of unknown records causes few facts.
func (d *decoder) missed(atEnd bool) bool {
	if d.Decoder == nil || d.Missed() <= d.reported || !atEnd && d.Missed() < 2*d.reported {
		return false
	}
	d.reported = d.Missed()
	return true
}

// unknown posts how many records of each type were unknown, if missed reports that a
// count is due.
func (d *decoder) unknown(post func(input.Input), atEnd bool) {
	if d.missed(atEnd) {
		post(input.UnknownSeen{Source: d.source, Types: d.Unknown()})
	}
}

// take decodes a record and posts its signals. at is the position of the record's end,
// or nil.
func (d *decoder) take(post func(input.Input), record []byte, at *input.Position) {
	signals := d.read(record)
	d.unknown(post, false)
	if len(signals) > 0 {
		post(input.SignalsSeen{Signals: signals, Source: d.source, Position: at})
	}
}

// end posts the signals that the decoder still holds back.
func (d *decoder) end(post func(input.Input)) {
	if h, holds := d.Decoder.(telemetry.Holder); holds {
		if signals := d.recent(h.End()); len(signals) > 0 {
			post(input.SignalsSeen{Signals: signals, Source: d.source})
		}
	}
}

// errNoPath means that a database source was given no path.
var errNoPath = errors.New("the source has no path")
