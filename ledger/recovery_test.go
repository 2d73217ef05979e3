package ledger

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/canon"
)

// TestRecovery runs the scenarios in testdata/recovery, which damage a ledger and
// show what each function reports. Commands:
//
//	create [segment-bytes=N]     a new ledger in a new folder; the writer has it open
//	append [sync]                one Append; each line of input is "kind body"
//	close                        the writer closes it
//	open, recover, read, verify  call the function; after open the writer has it open
//	files                        the segments, with their lines and bytes
//	cut segment=N bytes=N        take bytes off the end of a segment
//	add segment=N                append the input (%0 is a NUL, %n a LF)
//	edit segment=N line=N old=X new=Y
//	                             replace the first X in a line with Y
//	forge segment=N line=N old=X new=Y
//	                             edit, and correct the digest in the line
//	drop segment=N line=N        remove a line
//	repeat segment=N line=N      write a line twice
//	swap segment=N line=N        exchange a line with the next line
//	move segment=N to=N          rename a segment
//	remove segment=N             delete a segment
//	empty segment=N              truncate a segment to no bytes
func TestRecovery(t *testing.T) {
	datadriven.Walk(t, "testdata/recovery", func(t *testing.T, path string) {
		s := &scenario{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return strings.ReplaceAll(s.run(d), s.dir, "DIR")
		})
		if s.log != nil {
			s.log.Close()
		}
	})
}

type scenario struct {
	t   *testing.T
	dir string
	log *Log
	n   int // the number of records written, from which their times are computed
}

func (s *scenario) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "create":
		o := Options{}
		if d.HasArg("segment-bytes") {
			d.ScanArgs(s.t, "segment-bytes", &o.SegmentBytes)
		}
		dir, err := os.MkdirTemp(s.t.TempDir(), "l")
		require.NoError(s.t, err)
		s.dir = dir
		s.log, err = Create(s.dir, o)
		return outcome("created", err)
	case "append":
		var records []Record
		for line := range strings.Lines(d.Input) {
			kind, body, _ := strings.Cut(strings.TrimSpace(line), " ")
			s.n++
			r := record(kind, s.n)
			r.Body = []byte(body)
			records = append(records, r)
		}
		entries, err := s.log.Append(records, d.HasArg("sync"))
		return listed(entries, err)
	case "close":
		return outcome("closed", s.log.Close())
	case "open":
		log, rec, err := Open(s.dir, Options{})
		if err == nil {
			s.log = log
		}
		return fmt.Sprintf("%s%s", outcome("opened", err), recovered(rec))
	case "recover":
		rec, err := Recover(s.dir)
		return fmt.Sprintf("%s%s", outcome("recovered", err), recovered(rec))
	case "read":
		return listed(readAll(s.dir))
	case "verify":
		r, err := Verify(s.dir)
		return fmt.Sprintf("%sentries %d, segments %d, first %s, last %s, torn %d\n",
			outcome("verified", err), r.Entries, r.Segments, short(r.First), short(r.Last), r.TornBytes)
	case "files":
		return s.files()
	case "move", "remove":
		return s.rename(d)
	}
	return s.damage(d)
}

func (s *scenario) rename(d *datadriven.TestData) string {
	var from, to int
	d.ScanArgs(s.t, "segment", &from)
	if d.Cmd == "remove" {
		require.NoError(s.t, os.Remove(segmentPath(s.dir, from)))
		return s.files()
	}
	d.ScanArgs(s.t, "to", &to)
	require.NoError(s.t, os.Rename(segmentPath(s.dir, from), segmentPath(s.dir, to)))
	return s.files()
}

// damage changes the text of one segment.
func (s *scenario) damage(d *datadriven.TestData) string {
	var segment, line, bytes int
	d.ScanArgs(s.t, "segment", &segment)
	path := segmentPath(s.dir, segment)
	b, err := os.ReadFile(path)
	require.NoError(s.t, err)
	text := string(b)
	lines := strings.SplitAfter(text, "\n")
	if d.HasArg("line") {
		d.ScanArgs(s.t, "line", &line)
		line--
	}
	switch d.Cmd {
	case "cut":
		d.ScanArgs(s.t, "bytes", &bytes)
		text = text[:len(text)-bytes]
	case "add":
		text += strings.ReplaceAll(d.Input, "%0", "\x00")
		text = strings.ReplaceAll(text, "%n", "\n")
	case "empty":
		text = ""
	case "edit", "forge":
		var before, after string
		d.ScanArgs(s.t, "old", &before)
		d.ScanArgs(s.t, "new", &after)
		require.Contains(s.t, lines[line], before)
		lines[line] = strings.Replace(lines[line], before, after, 1)
		if d.Cmd == "forge" {
			lines[line] = forge(s.t, lines[line])
		}
		text = strings.Join(lines, "")
	case "drop":
		text = strings.Join(append(lines[:line:line], lines[line+1:]...), "")
	case "repeat":
		text = strings.Join(append(lines[:line+1:line+1], lines[line:]...), "")
	case "swap":
		lines[line], lines[line+1] = lines[line+1], lines[line]
		text = strings.Join(lines, "")
	default:
		s.t.Fatalf("no such command: %s", d.Cmd)
	}
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return s.files()
}

var digestPattern = regexp.MustCompile(`"digest":"[^"]*",("kind":)`)

// forge gives a line the digest of its bytes.
func forge(t *testing.T, line string) string {
	t.Helper()
	bare := digestPattern.ReplaceAllString(strings.TrimSpace(line), "$1")
	require.NotEqual(t, strings.TrimSpace(line), bare)
	return digestPattern.ReplaceAllString(line, `"digest":"`+string(canon.Sum([]byte(bare)))+`",$1`)
}

func (s *scenario) files() string {
	all, err := segments(s.dir)
	require.NoError(s.t, err)
	var out strings.Builder
	for _, n := range all {
		text, err := os.ReadFile(segmentPath(s.dir, n))
		require.NoError(s.t, err)
		fmt.Fprintf(&out, "%s: %d lines, %d bytes\n", segmentName(n), strings.Count(string(text), "\n"), len(text))
	}
	return out.String()
}

func outcome(done string, err error) string {
	if err == nil {
		return done + "\n"
	}
	kind := ""
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		kind = " [CorruptError]"
	case errors.Is(err, ErrTornTail):
		kind = " [ErrTornTail]"
	}
	return fmt.Sprintf("error%s: %v\n", kind, err)
}

func recovered(r Recovery) string {
	return fmt.Sprintf("entries %d, segments %d, last %s, %s torn %d\n", r.Entries, r.Segments, short(r.Last), r.Segment, r.TornBytes)
}

func listed(entries []Entry, err error) string {
	var out strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&out, "%d %s %s  %s <- %s\n", e.Seq, e.Kind, e.Body, short(e.Prev), short(e.Digest))
	}
	if err != nil {
		out.WriteString(outcome("", err))
	}
	return out.String()
}

// short is the beginning of a digest.
func short(d canon.Digest) string {
	if len(d) < canon.DigestLen {
		return "none"
	}
	return string(d[len("sha256:") : len("sha256:")+6])
}
