package profiles

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"lifeloop/telemetry/opencode"
)

// opencodeProfile is the profile of OpenCode, as observed with 1.18.33. A launch gets a
// URL of ours, from which OpenCode reads instructions for the model, and a plugin of the
// terminal interface (opencode_launch.go). `host apply` installs a server plugin, whose
// hooks and answers have a form of our own. A launch gets a server plugin only under a
// policy (opencode_guard.go), because OpenCode waits for a package registry before it
// loads a server plugin.
func opencodeProfile() Profile {
	return Profile{
		Adapter:    "opencode",
		Programs:   []string{"opencode"},
		Tested:     []string{"1.18.33"},
		sessions:   stored{"XDG_DATA_HOME", filepath.Join(".local", "share"), Place{Dir: "opencode", Pattern: "opencode.db", Sessions: opencodeSessions}},
		Hooks:      opencode.Hooks{},
		Transcript: Source{Name: "store", Decoder: opencode.Store, Form: Rows, Query: opencodeEvents},
		Kinds: []Source{
			{Name: "rows", Decoder: opencode.Store}, // a file with the rows of the database, one per line
			{Name: "bus", Decoder: opencode.Bus, Form: Events},
			{Name: "events", Decoder: opencode.Bus}, // the server's events in a file, one per line, as a plugin writes them
			{Name: "stream", Decoder: opencode.Run, Blind: true},
		},
		windows: opencodeWindows,
		Prepare: prepareOpencode,
		Trial:   trialOpencode,
		Asks:    true,
		Install: installOpencode,
		// In a terminal, OpenCode exits with 0 on INT or TERM. Both kill `opencode
		// run`, which then reports no end.
		Quit:       sigTERM,
		resume:     resumeOpencode,
		prints:     func(args []string) bool { return slices.Contains(args, "run") },
		anySession: "ses_0",
	}
}

// opencodeEvents selects the events in OpenCode's database in the order of
// writing. It concatenates the stored texts: parsing and encoding them as JSON
// would cost more than all later work on them.
const opencodeEvents = `SELECT rowid, '{"id":"' || id || '","aggregate_id":"' || aggregate_id || '","seq":' || seq ||
	',"type":"' || type || '","data":' || data || '}' FROM event WHERE rowid > ?1 ORDER BY rowid`

// opencodePrompted selects the sessions that got a prompt.
const opencodePrompted = `SELECT rowid, aggregate_id FROM event
	WHERE rowid > ?1 AND type = 'message.updated.1' AND json_extract(data, '$.info.role') = 'user' ORDER BY rowid`

const opencodeSessions = `SELECT time_updated, json_object('id', id, 'dir', directory)
	FROM session WHERE time_updated > ?1 AND parent_id IS NULL ORDER BY time_updated`

//go:embed opencode.js
var opencodePlugin []byte

// opencodeMark begins the first line of our plugin. The line ends with the digest of the
// other lines. A file counts as ours if this digest is correct.
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
		return Installation{}, errors.New("the path of this program or of the plugin is not UTF-8, so no plugin can be written")
	}
	body := string(bytes.Replace(opencodePlugin, []byte(`"EXE"`), encode(h.Exe), 1))
	return Installation{Path: path, Shared: project, Whole: opencodeMark + digest(body) + "\n" + body, Mark: opencodeMark, Ours: oursWhole(opencodeMark)}, nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// oursWhole returns a function that recognises a whole file of ours by its mark and
// its digest.
func oursWhole(mark string) func(text string) bool {
	return func(text string) bool {
		head, body, found := strings.Cut(text, "\n")
		return found && head == mark+digest(body)
	}
}
