package supervisor

import (
	"bytes"
	"io"
	"os"
	"slices"
	"time"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
	"lifeloop/telemetry"
)

// typedFiles reads the session files of a harness, and its list of typed lines.
type typedFiles struct {
	profiles.Typing
	decoder func() telemetry.Decoder // returns a decoder of session files
	since   time.Time                // the time of the launch
}

// linesOf returns the lines of a list since the launch. whole is false if the list is being
// written.
func (f *typedFiles) linesOf(list []byte) (lines []telemetry.Typed, whole bool) {
	lines, whole = f.Lines(list)
	return slices.DeleteFunc(lines, func(l telemetry.Typed) bool { return l.At.Before(f.since) }), whole
}

// changed returns the session files of a folder that changed since a time.
func (f *typedFiles) changed(folder string, since time.Time) (paths []string) {
	files, _ := matching(folder, f.Pattern) // the watcher reports an error of the folder
	for _, file := range files {
		if changedSince(file, since) {
			paths = append(paths, file)
		}
	}
	return paths
}

// changedSince reports whether a file exists and changed since a time.
func changedSince(path string, since time.Time) bool {
	info, err := os.Stat(path)
	return err == nil && !info.ModTime().Add(coarse).Before(since)
}

// read reads the beginning and the end of a session file. It returns the session, the
// time when the session began, and the prompts in the last tailSize bytes.
func (f *typedFiles) read(path string) (session string, began time.Time, prompts []telemetry.Typed) {
	file, err := durable.OpenLinked(path)
	if err != nil {
		return "", began, nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", began, nil
	}
	head, err := headOf(file)
	if err != nil {
		return "", began, nil
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	for _, sig := range f.decoder().Decode(first) {
		if sig.Kind == telemetry.SessionLive && sig.Agent == "" {
			session, began = sig.Session, sig.At
		}
	}
	// The file is read soon after a prompt was written, so the end of a long file is enough.
	tail, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailSize), tailSize))
	if err != nil {
		return "", began, nil
	}
	for record := range bytes.Lines(tail) {
		if p, ok := f.Prompt(bytes.TrimSuffix(record, []byte("\n"))); ok {
			prompts = append(prompts, p)
		}
	}
	return session, began, prompts
}
