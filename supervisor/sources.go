package supervisor

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
)

// Files are the sources of one run: the files of a profile, decoded line by
// line on the watcher's goroutine.
type Files struct {
	// Fixed are watched from the launch on; Named is the form of a file that
	// the harness names itself.
	Fixed []profiles.Source
	Named profiles.Source
	// Since drops what was recorded earlier: a resumed session's file holds
	// its whole past, which is not news. Zero takes everything.
	Since time.Time
	// AtEnd passes over what Fixed files hold already.
	AtEnd bool
	Log   zerolog.Logger

	watcher  *watchers.Watcher
	post     func(kernel.Input)
	decoders map[string]*decoder // by source and path; owned by the watcher's goroutine
}

// A decoder is that of one file, nil when there is none, and from when on its
// signals are news.
type decoder struct {
	telemetry.Decoder
	source string
	since  time.Time
	told   int // how many records it had missed when that was told last
}

// NewFiles checks that every decoder is known and opens nothing.
func NewFiles(f Files) (*Files, error) {
	f.decoders = map[string]*decoder{}
	for _, s := range append([]profiles.Source{f.Named}, f.Fixed...) {
		if s.Decoder == "" {
			continue
		}
		if _, err := telemetry.NewDecoder(s.Decoder); err != nil {
			return nil, err
		}
	}
	files := &f
	var err error
	files.watcher, err = watchers.New(watchers.Config{Deliver: files.deliver, Trouble: files.trouble})
	return files, err
}

// Run follows the files until ctx ends, and then each once more to its end.
func (f *Files) Run(ctx context.Context, post func(kernel.Input)) error {
	f.post = post
	err := f.watcher.Run(ctx)
	for _, d := range f.decoders {
		if d.Decoder != nil && d.Missed() > d.told {
			d.told = d.Missed()
			f.tellUnknown(d.source)
		}
	}
	return err
}

// missed tells what a decoder did not know, whenever that has doubled: a file
// full of it must not make as many facts.
func (f *Files) missed(d *decoder) {
	if n := d.Missed(); n > 0 && n >= 2*d.told {
		d.told = n
		f.tellUnknown(d.source)
	}
}

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

// Launched begins with the files whose path is known, now that the process is.
func (f *Files) Launched(pid int) {
	for _, s := range f.Fixed {
		f.watcher.Add(watchers.Spec{Source: s.Name, Pattern: s.Pattern, Form: form(s.Form), AtEnd: f.AtEnd || s.Form == profiles.Stamp && !f.Since.IsZero(), Path: strings.ReplaceAll(s.Path, "{pid}", strconv.Itoa(pid))})
	}
}

// Watch begins with a file that the harness named.
func (f *Files) Watch(path string) {
	if f.Named.Decoder != "" {
		f.watcher.Add(watchers.Spec{Source: f.Named.Name, Form: form(f.Named.Form), Path: path})
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

func (f *Files) deliver(l watchers.Line) {
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
	signals := d.Decode(l.Text)
	f.missed(d)
	if !d.since.IsZero() {
		kept := signals[:0]
		for _, s := range signals {
			if s.At.IsZero() || !s.At.Before(d.since) {
				kept = append(kept, s)
			}
		}
		signals = kept
	}
	if len(signals) == 0 {
		return
	}
	f.post(kernel.SignalsSeen{Signals: signals, Position: &kernel.Position{
		Path: l.Pos.Path, Dev: l.Pos.Dev, Ino: l.Pos.Ino, Prefix: l.Pos.Prefix, Offset: l.Pos.Offset}})
}

func (f *Files) decoderOf(source string) *decoder {
	for _, s := range append([]profiles.Source{f.Named}, f.Fixed...) {
		if s.Name != source {
			continue
		}
		d, err := telemetry.NewDecoder(s.Decoder)
		if err != nil {
			f.Log.Error().Err(err).Str("source", source).Msg("no decoder")
			return &decoder{source: source}
		}
		if s.Form == profiles.Stamp { // its past was passed over, and its time may be that of another machine's clock
			return &decoder{Decoder: d, source: source}
		}
		return &decoder{Decoder: d, source: source, since: f.Since}
	}
	return &decoder{source: source}
}

func (f *Files) trouble(t watchers.Trouble) {
	f.Log.Warn().Str("source", t.Source).Str("what", string(t.What)).Err(t.Err).Msg("a watched file")
	f.post(kernel.SourceTrouble{Source: t.Source, What: string(t.What)})
}
