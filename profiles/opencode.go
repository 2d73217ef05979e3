package profiles

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"lifeloop/telemetry/opencode"
)

// opencodeProfile is the profile of OpenCode, as seen on 1.18.33. A launch is left as
// it is: a plugin makes the start wait for a package registry, which is for
// the user to choose. Its hooks are those of the plugin that host apply lays
// down, and what they are answered is a word between the plugin and us.
func opencodeProfile() Profile {
	p := plain("opencode", "opencode")
	p.Tested = []string{"1.18.33"}
	p.places = opencodePlaces
	p.Hooks = opencode.Hooks{}
	p.Transcript = Source{Name: "store", Decoder: opencode.Store, Form: Rows, Query: opencodeEvents}
	p.Kinds = []Source{
		{Name: "rows", Decoder: opencode.Store}, // the same, written out as lines
		{Name: "bus", Decoder: opencode.Bus, Form: Events},
		{Name: "events", Decoder: opencode.Bus}, // the same, and what a plugin wrote down of it
		{Name: "stream", Decoder: opencode.Run, Blind: true},
	}
	p.Prepare = func(argv []string, h Host) (Launch, error) {
		l, err := withoutHooks(argv, h, "OpenCode gets no plugin for one launch, and an installed one is silent below the wrapper",
			"frame.opening", "frame.opened", "frame.ending", "frame.ended", "context.compacted", "placement.pre_frame_trailing", "telemetry.hooks")
		l.lack("one store holds the sessions of every OpenCode of this user, and nothing tells which of them is this launch's",
			"context.pressure_observed", "context_pressure", "receipt.gap_detected", "telemetry.store", "telemetry.bus", "telemetry.stream")
		return l, err
	}
	p.Install = installOpencode
	// Its terminal exits 0 on any of them; `run` dies of either and tells no end.
	p.Quit = sigTERM
	p.Resume, p.anySession = resumeOpencode, "ses_0"
	return p
}

// opencodeEvents asks OpenCode's database for what it wrote down of its
// sessions, in the order of writing. The rows are put together as they lie
// there: to read them as JSON only to write them again would cost more than all
// that is done with them.
const opencodeEvents = `SELECT rowid, '{"id":"' || id || '","aggregate_id":"' || aggregate_id || '","seq":' || seq ||
	',"type":"' || type || '","data":' || data || '}' FROM event WHERE rowid > ?1 ORDER BY rowid`

//go:embed opencode.js
var opencodePlugin []byte

// The first line of a plugin of ours ends with the digest of all that follows,
// so that a file is ours while nobody has changed it.
const opencodeMark = "// by `lifeloop-wrap host apply opencode`, sha256 "

func installOpencode(project bool, h Host) (Installation, error) {
	dir := filepath.Join(h.Dir, ".opencode")
	if !project {
		config := h.home("XDG_CONFIG_HOME", ".config")
		if config == "" {
			return Installation{}, errNoHome
		}
		dir = filepath.Join(config, "opencode")
	}
	path := filepath.Join(dir, "plugin", "lifeloop.js")
	if !utf8.ValidString(h.Exe) || !utf8.ValidString(path) {
		return Installation{}, errors.New("a path that is not UTF-8 cannot be written into a plugin")
	}
	body := string(bytes.Replace(opencodePlugin, []byte(`"EXE"`), encode(h.Exe), 1))
	return Installation{Path: path, Shared: project, Whole: opencodeMark + digest(body) + "\n" + body, Mark: opencodeMark, Ours: oursWhole(opencodeMark)}, nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// oursWhole recognises a whole file by its mark and its digest.
func oursWhole(mark string) func(text string) bool {
	return func(text string) bool {
		head, body, found := strings.Cut(text, "\n")
		return found && head == mark+digest(body)
	}
}

func opencodePlaces(h Host, store Source) []Place {
	dir := h.home("XDG_DATA_HOME", filepath.Join(".local", "share"))
	if dir == "" {
		return nil
	}
	return []Place{{Source: store, Dir: filepath.Join(dir, "opencode"), Pattern: "opencode.db", Sessions: `SELECT time_updated,
		json_object('id', id, 'dir', directory) FROM session WHERE time_updated > ?1 AND parent_id IS NULL ORDER BY time_updated`}}
}
