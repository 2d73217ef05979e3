package supervisor

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/synth"
)

// A memory is a ledger in memory.
type memory struct {
	t       *testing.T
	entries []kernel.Entry
}

func (m *memory) Append(records []ledger.Record, _ bool) ([]ledger.Entry, error) {
	for _, r := range records {
		f, err := kernel.Decode(r.Kind, r.Body)
		require.NoError(m.t, err)
		m.entries = append(m.entries, kernel.Entry{Seq: uint64(len(m.entries) + 1), At: r.At.Round(0), Fact: f})
	}
	return make([]ledger.Entry, len(records)), nil
}

func (*memory) Close() error { return nil }

// An observation describes what an observer reads, so that the observer can be killed
// and started again.
type observation struct {
	t       *testing.T
	adapter string
	session string
	sources []profiles.Source
	follow  bool
	ids     int
}

// newObservation describes the observation of sources, each given as KIND=PATH.
func newObservation(t *testing.T, adapter, session string, follow bool, sources ...string) *observation {
	o := &observation{t: t, adapter: adapter, session: session, follow: follow}
	profile, _ := profiles.For(adapter)
	for _, s := range sources {
		kind, path, _ := strings.Cut(s, "=")
		i := slices.IndexFunc(profile.Observable(), func(s profiles.Source) bool { return s.Name == kind })
		require.GreaterOrEqual(t, i, 0, "%s has no source %s", adapter, kind)
		source := profile.Observable()[i]
		var err error
		source.Path, err = filepath.Abs(path)
		require.NoError(t, err)
		o.sources = append(o.sources, source)
	}
	return o
}

// observe observes the present content of the sources and returns the facts on the
// ledger. If past has the facts of a killed observer, observe resumes after these facts.
func (o *observation) observe(past []kernel.Entry) []kernel.Entry {
	manifest, ok := manifests.Get(o.adapter)
	require.True(o.t, ok)
	profile, _ := profiles.For(o.adapter)
	k := kernel.New(kernel.Config{Session: "observed", Observing: true, Ledger: true, Began: kernel.Began{SessionID: "observed", AdapterID: o.adapter, Clients: []string{}},
		Launch: setup.Launch{Manifest: manifest, HarnessSession: o.session, Synth: synth.Config{Estimates: profile.Estimates}},
		NewID:  func(prefix string) string { o.ids++; return fmt.Sprintf("%snew%d", prefix, o.ids) }})
	left := ReadPast(slices.Values(past), k.Fold)
	log := &memory{t: o.t, entries: slices.Clone(past)}
	listen := each(func(kernel.Entry) error { return nil })
	if !o.follow {
		require.NoError(o.t, Once(o.t.Context(), k, o.sources, left, Ports{Ledger: log}, listen))
		return log.entries
	}
	files, err := NewFiles(Files{Fixed: o.sources, Named: profile.Transcript, Positions: true})
	require.NoError(o.t, err)
	if len(past) > 0 {
		require.NoError(o.t, files.Resume(k, left, log, listen))
	}
	files.Launched(0)
	over, cancel := context.WithCancel(o.t.Context())
	cancel() // ends the reading at the present end of the sources
	_, err = Observe(over, k, files, Ports{Ledger: log}, Options{Restart: len(past) > 0}, listen)
	require.NoError(o.t, err)
	return log.entries
}

// chronicle returns the usage and the events. The frames are numbered in the order of
// their appearance.
func chronicle(t *testing.T, entries []kernel.Entry) (events []string, usage synth.Usage) {
	frames := map[string]int{}
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case kernel.UsageCounted:
			usage = f.Usage
		case kernel.Observed:
			text, err := json.Marshal(f.Record.Data)
			require.NoError(t, err)
			line := fmt.Sprintf("%s %s", f.Record.Event, text)
			if c := f.Record.FrameContext; c != nil {
				if frames[c.FrameID] == 0 {
					frames[c.FrameID] = len(frames) + 1
				}
				line += fmt.Sprint(" frame ", frames[c.FrameID])
			}
			events = append(events, line)
		}
	}
	return events, usage
}

var allPrefixes = flag.Bool("prefixes", false, "kill an observer after each of its facts (make chaos), not only after the first of each kind and each twelfth")

// TestEveryPrefixOfAnObservationResumes kills an observer between two of its facts, which
// may belong to one record, and resumes an hour later. No event may be repeated or lost,
// even if only some of the facts of its record were written before the kill.
func TestEveryPrefixOfAnObservationResumes(t *testing.T) {
	const claude, codex = "../telemetry/claude/testdata/transcripts/", "../telemetry/codex/testdata/"
	began, tried, all := time.Now(), 0, 0
	defer func() {
		t.Logf("%d of %d points of observations in %v", tried, all, time.Since(began).Round(time.Second))
	}()
	for _, follow := range []bool{false, true} {
		for _, c := range []struct {
			adapter, session string
			sources          []string
		}{
			{"claude", "", []string{"transcript=" + claude + "auto_compact.jsonl"}},
			{"claude", "", []string{"transcript=" + claude + "tool_turn.jsonl", "hooks=" + claude + "tool_turn.hooks.jsonl"}},
			{"codex", "", []string{"rollout=" + codex + "rollouts/manual-compact.tui.jsonl"}},
			{"gemini", "", []string{"hooks=../telemetry/gemini/testdata/hooks/sequence-interactive.jsonl"}}, // prompts without ids
			{"opencode", "", []string{"store=../telemetry/opencode/testdata/store/opencode.db"}},
		} {
			t.Run(fmt.Sprint(c.adapter, len(c.sources), "-follow-", follow), func(t *testing.T) {
				o := newObservation(t, c.adapter, c.session, follow, c.sources...)
				calm := o.observe(nil)
				want, usage := chronicle(t, calm)
				require.GreaterOrEqual(t, len(want), 4)
				// A follower takes the times of its facts from the clock, so they are made an
				// hour older. Without follow, the function Once takes them from the records.
				if follow {
					calm = anHourAgo(t, calm)
				}
				all += len(calm) - 1
				kinds := map[string]bool{}
				for n := 1; n < len(calm); n++ {
					kind := kernel.Kind(calm[n-1].Fact)
					if kinds[kind] && n%12 != 0 && !*allPrefixes {
						continue
					}
					kinds[kind] = true
					tried++
					got, used := chronicle(t, o.observe(calm[:n:n]))
					require.Equal(t, want, got, "killed after entry %d, %s", n, kind)
					require.Equal(t, usage, used, "killed after entry %d", n)
				}
			})
		}
	}
}

// anHourAgo returns the facts as if they had been recorded an hour ago.
func anHourAgo(t *testing.T, entries []kernel.Entry) []kernel.Entry {
	begin := entries[0].At.Add(-time.Second)
	stamp := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)
	seconds := regexp.MustCompile(`at_epoch_s":(\d+)`)
	out := slices.Clone(entries)
	for i := range out {
		kind, body, err := kernel.Encode(out[i].Fact)
		require.NoError(t, err)
		body = stamp.ReplaceAllFunc(body, func(quoted []byte) []byte {
			at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(quoted))
			if err != nil || at.Before(begin) { // a time in the harness's records, which must not change
				return quoted
			}
			return append([]byte(at.Add(-time.Hour).Format(`"2006-01-02T15:04:05`)), quoted[20:]...) // keep the fraction of the second unchanged
		})
		body = seconds.ReplaceAllFunc(body, func(member []byte) []byte {
			n, err := strconv.ParseInt(string(seconds.FindSubmatch(member)[1]), 10, 64)
			require.NoError(t, err)
			return fmt.Appendf(nil, `at_epoch_s":%d`, n-3600)
		})
		out[i].At = out[i].At.Add(-time.Hour)
		out[i].Fact, err = kernel.Decode(kind, body)
		require.NoError(t, err)
	}
	return out
}

// TestResumedInTheOtherMode resumes an observation in another mode than the one that
// began it: no turn is observed twice, and none is lost without a report.
func TestResumedInTheOtherMode(t *testing.T) {
	for _, follow := range []bool{false, true} {
		t.Run(fmt.Sprint("follow-", follow), func(t *testing.T) {
			path, lines := filepath.Join(t.TempDir(), "t.jsonl"), claudeTurns(6)
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:8], "\n")+"\n"), 0o600))
			o := newObservation(t, "claude", "", !follow, "transcript="+path)
			past := killed(o.observe(nil))
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
			o.follow = follow
			events, _ := chronicle(t, o.observe(past))
			for frame := range 6 {
				require.Len(t, slices.DeleteFunc(slices.Clone(events), func(e string) bool {
					return e != fmt.Sprint("frame.opened {} frame ", frame+1)
				}), 1)
			}
			require.False(t, slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "frame 7") }))
		})
	}
}

// TestRewrittenWhileItWasNotObserved changes a file in place: the change is reported,
// no turn is observed twice, and new records are observed.
func TestRewrittenWhileItWasNotObserved(t *testing.T) {
	lines := claudeTurns(6)
	read := lines[:8]
	for name, now := range map[string][]string{
		"shorter":   lines[4:12],
		"truncated": lines[:3],
		"longer":    slices.Concat(lines[:6], lines[7:]), // longer than before, but the first 1024 bytes are the same
		"same":      lines,
	} {
		for _, follow := range []bool{false, true} {
			for _, twice := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "-follow-", follow, "-twice-", twice), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "t.jsonl")
					write := func(lines []string) {
						require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
					}
					write(read)
					o := newObservation(t, "claude", "", follow, "transcript="+path)
					past := killed(o.observe(nil))
					write(now)
					past = o.observe(past)
					if twice {
						past = o.observe(killed(past))
					}
					missed, opened := 0, map[string]int{}
					for _, e := range past {
						switch f := e.Fact.(type) {
						case kernel.SourceTroubled:
							missed++
						case kernel.Observed:
							if f.Record.Event == lifeloop.FrameOpened {
								opened[f.Record.FrameContext.FrameID]++
							}
						}
					}
					for frame, n := range opened {
						require.Equal(t, 1, n, frame)
					}
					if name == "same" {
						require.Zero(t, missed)
						require.Len(t, opened, 6)
						return
					}
					require.Equal(t, 1, missed)
					if name == "longer" {
						require.Len(t, opened, 6)
					}
				})
			}
		}
	}
}

// claudeTurns returns the lines of a transcript: for each turn a prompt, an answer and
// the end of the turn.
func claudeTurns(turns int) (lines []string) {
	for n := range 3 * turns {
		record := fmt.Sprintf([]string{
			`"promptId":"p%d","type":"user","message":{"role":"user","content":"hello"},"permissionMode":"default","origin":{"kind":"human"},"promptSource":"typed"`,
			`"type":"assistant","requestId":"r%d","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}`,
			`"type":"system","subtype":"turn_duration","durationMs":1000,"messageCount":%d,"isMeta":false`,
		}[n%3], n/3)
		lines = append(lines, fmt.Sprintf(`{%s,"uuid":"u%d","timestamp":"2026-01-01T00:00:%02d.000Z","userType":"external","entrypoint":"cli","cwd":"/","sessionId":"s1","version":"2.1.197","isSidechain":false}`, record, n, n))
	}
	return lines
}

// killed returns the facts up to the last record that was read.
func killed(entries []kernel.Entry) []kernel.Entry {
	for i := len(entries) - 1; i >= 0; i-- {
		if f, ok := entries[i].Fact.(kernel.SourceRead); ok {
			return entries[: i+1+f.Facts : i+1+f.Facts]
		}
	}
	return nil
}
