// Command thread-sync is a client that stores the events it receives in a file:
// threads, their frames, and the receipts. It uses the contract of package lifeloop
// and nothing that is specific to a harness.
//
//	thread-sync --state FILE          one dispatch envelope in, one answer out
//	thread-sync --state FILE --show   the threads of the file, as JSON Lines
//
// The file is append-only, one JSON object per line. An event with a known event
// id or idempotency key is not written again. If its content is the same, the
// answer has a warning; otherwise the answer is a failure, state_conflict. A line
// is synced before its event is answered.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"syscall"

	"lifeloop/lifeloop"
)

func main() {
	state := flag.String("state", "", "the `file` that stores the received events")
	show := flag.Bool("show", false, "print the threads in the file (one for each harness session), and store nothing")
	flag.Parse()
	if *state == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	do := answer
	if *show {
		do = project
	}
	if err := do(*state, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "thread-sync:", err)
		os.Exit(1)
	}
}

// An entry is one line of the file: the parts of an event that this program
// needs. It holds no local time, so that a repeated event gives the same line.
type entry struct {
	Adapter string                 `json:"adapter_id"`
	Key     string                 `json:"idempotency_key,omitempty"`
	EventID string                 `json:"event_id"`
	Event   lifeloop.Event         `json:"event"`
	Thread  string                 `json:"thread"`
	Frame   *lifeloop.FrameContext `json:"frame_context,omitempty"`
	Data    map[string]any         `json:"data,omitempty"`
}

func entryOf(r lifeloop.CallbackRequest) entry {
	e := entry{Adapter: r.AdapterID, EventID: r.EventID, Event: r.Event, Frame: r.FrameContext, Data: r.EventData}
	if r.IdempotencyKey != nil {
		e.Key = *r.IdempotencyKey
	}
	// Until the harness session has an id, the launch identifies the thread.
	for _, id := range []*string{r.HarnessSessionID, r.HarnessRunID, &r.InvocationID} {
		if id != nil {
			e.Thread = *id
			break
		}
	}
	return e
}

// answer stores one event.
func answer(state string, in io.Reader, out io.Writer) error {
	doc, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	envelope, err := lifeloop.Parse[lifeloop.DispatchEnvelope](doc)
	if err != nil {
		return err
	}
	response := lifeloop.CallbackResponse{SchemaVersion: envelope.Request.SchemaVersion, Status: lifeloop.Observed}
	switch err := store(state, entryOf(envelope.Request)); {
	case errors.Is(err, errRepeat):
		response.Warnings = []string{"repeated; nothing written"}
	case errors.Is(err, errConflict):
		class := lifeloop.StateConflict
		response.Status, response.FailureClass = lifeloop.Failed, &class
	case err != nil:
		return err
	}
	doc, err = response.Encode()
	if err != nil {
		return err
	}
	_, err = out.Write(append(doc, '\n'))
	return err
}

var (
	errRepeat   = errors.New("repeated")
	errConflict = errors.New("a stored event with the same id or key has other content")
)

// store appends e. It locks the file, because several sessions may start this
// program at the same time.
func store(state string, e entry) (err error) {
	f, err := os.OpenFile(state, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", state, err)
	}
	stored, whole, err := entries(f)
	if err != nil {
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	// The stored entries were decoded from JSON. Decode e too, before it is compared.
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	for _, k := range stored {
		switch {
		case k.Adapter != e.Adapter || k.EventID != e.EventID && (e.Key == "" || k.Key != e.Key):
		case reflect.DeepEqual(k, e):
			return errRepeat
		default:
			return errConflict
		}
	}
	// Remove a partial last line. Its writer was killed before it answered the event.
	if err := f.Truncate(whole); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(line, '\n'), whole); err != nil {
		return err
	}
	return f.Sync()
}

// entries reads the complete lines of a file and returns their total size.
func entries(r io.Reader) (all []entry, whole int64, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("line %d of the state: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, int64(len(text)), nil
}

// A thread is the state of one harness session.
type thread struct {
	Thread     string         `json:"thread"`
	Ended      bool           `json:"ended"`
	OpenFrames []string       `json:"open_frames"` // outermost first
	Frames     map[string]int `json:"frames"`      // number of frames, by outcome
	Receipts   map[string]int `json:"receipts"`    // number of receipts, by status
}

// project prints one thread per line, in the order of their first events.
func project(state string, _ io.Reader, out io.Writer) error {
	f, err := os.Open(state)
	if err != nil {
		return err
	}
	defer f.Close()
	all, _, err := entries(f)
	if err != nil {
		return err
	}
	threads := map[string]*thread{}
	var order []*thread
	for _, e := range all {
		t := threads[e.Thread]
		if t == nil {
			t = &thread{Thread: e.Thread, OpenFrames: []string{}, Frames: map[string]int{}, Receipts: map[string]int{}}
			threads[e.Thread], order = t, append(order, t)
		}
		t.apply(e)
	}
	for _, t := range order {
		if err := json.NewEncoder(out).Encode(t); err != nil {
			return err
		}
	}
	return nil
}

func (t *thread) apply(e entry) {
	switch e.Event {
	case lifeloop.SessionStarting, lifeloop.SessionStarted:
		t.Ended = false
	case lifeloop.SessionEnded:
		t.Ended = true
	case lifeloop.FrameOpening, lifeloop.FrameOpened:
		if e.Frame != nil && !slices.Contains(t.OpenFrames, e.Frame.FrameID) {
			t.OpenFrames = append(t.OpenFrames, e.Frame.FrameID)
		}
	case lifeloop.FrameEnded:
		if e.Frame != nil {
			t.OpenFrames = slices.DeleteFunc(t.OpenFrames, func(id string) bool { return id == e.Frame.FrameID })
			t.Frames[word(e.Data, "outcome")]++
		}
	case lifeloop.ReceiptEmitted:
		t.Receipts[word(e.Data, "status")]++
	}
}

func word(data map[string]any, name string) string {
	if s, ok := data[name].(string); ok {
		return s
	}
	return "unknown"
}
