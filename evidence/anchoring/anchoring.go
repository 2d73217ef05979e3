// Package anchoring publishes the anchors of a session. An anchor is one line of JSON with
// the digest of one checkpoint of the session's evidence. The line is appended to a file,
// passed to a command, or printed. A file gets each line once. If the file or an earlier
// publication has another digest for a checkpoint, the evidence was rewritten, which is an
// error.
//
// The package follows the ledger like any other reader, so a running session never waits
// for it. It changes no line of the user's file, with one exception: a last line that is
// incomplete after a crash is moved to another file. It signs nothing and verifies nothing;
// package evidence does.
//
//	p := anchoring.Publisher{Session: id, File: file, Push: push, Report: report, Warn: warn}
//	if err := p.Open(); err != nil { … }
//	err := p.Each(ctx, st.Folder(id).FollowRecords(ctx, 1))
package anchoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lifeloop/evidence"
	"lifeloop/internal/durable"
	"lifeloop/internal/store"
)

// PushTime is the time limit of one run of a command that publishes an anchor.
const PushTime = 30 * time.Second

// A Publisher publishes the anchors of one session. Its exported fields are set before
// the first call. It is not safe for concurrent use.
type Publisher struct {
	Session string                                       // the id of the session
	File    string                                       // the file to which each anchor is appended as a line; empty if there is no file
	Push    func(ctx context.Context, line []byte) error // runs the command; nil if there is no command
	Print   func(line []byte) error                      // is called if there is neither a file nor a command
	Explain func(err error) error                        // converts an error of publishing to the error that is reported; nil to convert none
	Report  func(index int, err error)                   // is called for each anchor that cannot be published; index is that of its checkpoint
	Warn    func(text string)                            // is called if File needed a repair

	saved  func(evidence.Anchor) // is called for each published anchor; nil to do nothing
	last   evidence.Anchor       // the newest anchor that an earlier process published
	from   int                   // the oldest checkpoint that an earlier process could not publish; 0 if there is none
	known  []evidence.Anchor     // the session's anchors that File contained at the start
	failed int                   // the number of anchors that could not be published
}

// A FileError means that anchors cannot be appended to a file.
type FileError struct {
	File string
	Err  error
	Fix  string // a hint for the user
}

func (e *FileError) Error() string { return fmt.Sprintf("cannot append to %s: %v", e.File, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// A ReadError means that an entry of a session's ledger cannot be read.
type ReadError struct {
	Session string
	Err     error
}

func (e *ReadError) Error() string {
	if f, ok := errors.AsType[*store.FolderError](e.Err); ok {
		return fmt.Sprintf("session %s: %s", e.Session, f.What)
	}
	return fmt.Sprintf("session %s: %v", e.Session, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// Failed returns the number of anchors that could not be published.
func (p *Publisher) Failed() int { return p.failed }

// Newest returns the anchor of the newest checkpoint in the records of a session, the zero
// value if there is none. Errors are those of [Publisher.Each].
func Newest(session string, records iter.Seq2[store.Record, error]) (last evidence.Anchor, err error) {
	for a, err := range anchors(session, records) {
		if err != nil {
			return last, err
		}
		last = a
	}
	return last, nil
}

// Each publishes the anchor of each checkpoint in the records of the session. It returns a
// [*ReadError] if a record cannot be read, and another error if a record contradicts the
// ones before it. Anchors that cannot be published are reported, and are no error.
func (p *Publisher) Each(ctx context.Context, records iter.Seq2[store.Record, error]) error {
	_, err := p.each(ctx, records)
	return err
}

// each does the same as Each, and also returns the last anchor that it read.
func (p *Publisher) each(ctx context.Context, records iter.Seq2[store.Record, error]) (last evidence.Anchor, err error) {
	for a, err := range anchors(p.Session, records) {
		if err != nil {
			return last, err
		}
		p.Publish(ctx, a)
		last = a
	}
	return last, nil
}

// anchors yields the anchor of each checkpoint. It ends after the first error.
func anchors(session string, records iter.Seq2[store.Record, error]) iter.Seq2[evidence.Anchor, error] {
	return func(yield func(evidence.Anchor, error) bool) {
		x := evidence.NewExport()
		for r, err := range records {
			if err != nil {
				yield(evidence.Anchor{}, &ReadError{session, err})
				return
			}
			x.Apply(r.Entry, r.Digest)
			for {
				next, ok, err := x.NextAnchor()
				if err != nil {
					yield(next, fmt.Errorf("session %s: %w", session, err))
					return
				}
				if !ok {
					break
				}
				if !yield(next, nil) {
					return
				}
			}
		}
	}
}

// Publish appends one anchor to the file and passes the anchor to the command. If there
// is neither a file nor a command, Publish prints the anchor. A failure is reported, and
// later anchors can still be published.
func (p *Publisher) Publish(ctx context.Context, next evidence.Anchor) {
	due, inFile, err := p.due(next)
	if !due {
		return
	}
	if err == nil {
		err = p.write(ctx, next, inFile)
	}
	if err != nil {
		p.fail(next.Index, err)
	} else if p.saved != nil {
		p.saved(next)
	}
}

// due reports whether a checkpoint is to be published, and whether the file has its anchor
// already. It is an error if another digest was published for the checkpoint.
func (p *Publisher) due(next evidence.Anchor) (due, inFile bool, err error) {
	i := slices.IndexFunc(p.known, func(k evidence.Anchor) bool { return k.Index == next.Index })
	inFile = i >= 0 && p.known[i] == next
	// If again is set, an earlier process may have failed to publish this checkpoint.
	again := p.from > 0 && next.Index >= p.from
	switch {
	case !again && (next.Index < p.last.Index || next == p.last):
		return false, inFile, nil // the checkpoint was published before
	case i >= 0 && !inFile:
		err = fmt.Errorf("%s has another digest for the same checkpoint: the session's evidence was rewritten", p.File)
	case next.Index == p.last.Index && next != p.last:
		err = errors.New("another digest was published for the same checkpoint: the session's evidence was rewritten")
	}
	return true, inFile, err
}

// write publishes the line of an anchor.
func (p *Publisher) write(ctx context.Context, next evidence.Anchor, inFile bool) error {
	line, err := json.Marshal(next)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if p.File == "" && p.Push == nil {
		return p.Print(line)
	}
	if p.File != "" && !inFile {
		err = appendLine(p.File, line)
	}
	if p.Push != nil {
		err = errors.Join(err, p.Push(ctx, line))
	}
	return err
}

func (p *Publisher) fail(index int, err error) {
	p.failed++
	if p.Explain != nil {
		err = p.Explain(err)
	}
	p.Report(index, err)
}

// Open reads the session's anchors that are already in the file, and repairs a torn last
// line. If File is empty, Open does nothing. Every error of Open is a [*FileError].
func (p *Publisher) Open() error {
	if p.File == "" {
		return nil
	}
	text, err := durable.ReadFile(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(p.File)); err != nil {
			return &FileError{p.File, err, "make the folder first, or name a file in another one"}
		}
		return nil
	}
	if err == nil {
		text, err = p.setAside(text)
	}
	if err != nil {
		return &FileError{p.File, err, "name a regular file that you may read and write"}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if p.known, err = evidence.ParseAnchors(text); err != nil {
		return &FileError{p.File, err, "the file must contain only anchors, one on each line; name another file, or repair the line that the error names"}
	}
	p.known = slices.DeleteFunc(p.known, func(k evidence.Anchor) bool { return k.SessionID != p.Session })
	return nil
}

// setAside moves a last line that is torn, as after a crash during an append, to
// another file, and returns the text without that line. If any other line is not an
// anchor, setAside changes nothing.
func (p *Publisher) setAside(text []byte) ([]byte, error) {
	end := bytes.LastIndexByte(text, '\n') + 1
	torn := text[end:]
	if _, err := evidence.ParseAnchors(text[:end]); err != nil && len(bytes.TrimSpace(text[:end])) > 0 || !evidence.TornAnchor(torn) {
		return text, nil
	}
	aside := p.File + ".torn"
	if err := appendLine(aside, append(slices.Clone(torn), '\n')); err != nil {
		return nil, err
	}
	if err := os.Truncate(p.File, int64(end)); err != nil {
		return nil, err
	}
	p.Warn(fmt.Sprintf("the last line of %s was incomplete, as after a crash, and was moved to %s", p.File, aside))
	return text[:end], nil
}

// appendLine appends a line to a file. If the file does not end with a newline, appendLine
// adds a newline first.
func appendLine(file string, line []byte) error {
	f, err := durable.Open(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}
