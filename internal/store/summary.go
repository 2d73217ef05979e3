package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lifeloop/canon"
	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/manifests"
)

// summaryFile is the name of a file beside the ledger. The file has what a list of
// sessions shows, so that the list can be made without the ledger. A Recorder writes the
// summary when the session ends. If the session was short or its wrapper died, Summarize
// writes the summary. A summary is used only if it is complete and the extent in its
// header ([ledger.Extent]) equals the present extent of the ledger: any write to the
// ledger changes the extent. Other summaries are ignored. So the file need not be synced,
// and an error while writing it is ignored. A ledger with an unfinished last line or a
// damaged place has a summary too, because such a ledger does not change unless the user
// repairs it.
//
// A summary has four lines: a header, the digest of the header, a view.Status as
// JSON, and a view.Claims as JSON.
const summaryFile = "summary"

// maxSummary is the largest size of a summary in bytes; a larger one is neither
// written nor read.
const maxSummary = 256 << 10

// summaryForm is the version of the results of view.Status and view.Claims. It
// must be incremented when these change, which TestSummaryForm checks.
const summaryForm = 2

// form identifies everything that a summary depends on besides its ledger:
// summaryForm and the manifests, which determine the capabilities in a status.
func form() string {
	text := []byte{summaryForm}
	for _, id := range manifests.IDs() {
		text = append(text, manifests.Raw(id)...)
	}
	return string(canon.Sum(text))
}

// A Brief is the part of a summary's first line that describes the session.
type Brief struct {
	ID        string    `json:"session_id"`
	StartedAt time.Time `json:"started_at"`
	Liveness  string    `json:"liveness"`
}

type header struct {
	Form string `json:"form"`
	Brief
	Ledger ledger.Extent        `json:"ledger"`
	Damage *ledger.CorruptError `json:"damage,omitempty"`
	Body   canon.Digest         `json:"body"` // the digest of the third and the fourth line
}

// Apply updates the session with the next entry of its ledger.
func (k *Session) Apply(e kernel.Entry) {
	k.entries++
	k.Status.Apply(e)
	k.Claims.Apply(e)
}

func (k *Session) brief() Brief { return Brief{k.SessionID, k.StartedAt, k.Liveness} }

// Conclude writes the summary of a session that ended in this process. The ledger
// must be closed, and all its entries must have been applied to k.
func (k *Session) Conclude(id string, f Folder) {
	if x, err := ledger.Measure(string(f)); err == nil && k.Ended() && x.Seq == k.entries {
		k.SessionID, k.Folder, k.Liveness = id, f, Ended
		k.save(x)
	}
}

// fewEntries is the largest number of entries for which a Recorder writes no summary. The
// first list of sessions reads so few entries in a few milliseconds, and then Summarize
// writes the summary.
const fewEntries = 256

// A Recorder writes the summary of a session that this process records. The state of a
// short session is not computed, because that takes a tenth of the time of a short run.
type Recorder struct {
	early   []kernel.Entry // all entries, as long as they are few
	session Session
}

// Apply updates the recorder with the next entry of the ledger.
func (r *Recorder) Apply(e kernel.Entry) {
	if r.session.entries == 0 && len(r.early) < fewEntries {
		r.early = append(r.early, e)
		return
	}
	for _, e := range r.early {
		r.session.Apply(e)
	}
	r.early = nil
	r.session.Apply(e)
}

// Conclude calls [Folder.Forget] and writes the summary, as [Session.Conclude] does. The
// ledger must have entries. If the process is killed before the end of Conclude, the
// session has no valid summary, and Summarize continues the work.
//
// For a short session, Conclude writes no summary, but puts another file in its place. The
// file shows that the ledger has entries (see Folder.gone). Conclude renames the list of
// guards for this purpose, because to rename a file is faster than to create one.
func (r *Recorder) Conclude(id string, f Folder) {
	short := len(r.early) > 0
	marked := short && os.Rename(f.file(guardsFile), f.file(summaryFile)) == nil
	f.Forget()
	switch {
	case !short:
		r.session.Conclude(id, f)
	case !marked: // there was no launch
		_ = durable.PutFile(f.file(summaryFile), nil)
	}
}

// save writes the summary of k. x is the extent of the ledger whose entries were applied
// to k.
func (k *Session) save(x ledger.Extent) {
	damage, damaged := errors.AsType[*ledger.CorruptError](k.Damage)
	if k.entries == 0 || k.Damage != nil && !damaged { // the session never began, or the error is not damage and may be gone the next time
		return
	}
	status, err := json.Marshal(k.Status)
	if err != nil {
		return
	}
	claims, err := json.Marshal(k.Claims)
	if err != nil {
		return
	}
	body := bytes.Join([][]byte{status, claims, nil}, []byte("\n"))
	first, err := json.Marshal(header{form(), k.brief(), x, damage, canon.Sum(body)})
	if err != nil {
		return
	}
	text := bytes.Join([][]byte{first, []byte(canon.Sum(first)), body}, []byte("\n"))
	if len(text) < maxSummary {
		_ = durable.Cache(k.Folder.file(summaryFile), text, 0o600)
	}
}

// A summaryReader reads the summaries of many sessions.
type summaryReader struct {
	form string
	buf  [maxSummary]byte
	// The fields below belong to the last summary that was read.
	head header
	body []byte
}

// read reads the summary in a folder, and reports whether its header is intact and fits
// the ledger. The method session checks the body.
func (r *summaryReader) read(f Folder) bool {
	text, _, err := durable.ReadTail(f.file(summaryFile), r.buf[:])
	if err != nil {
		return false
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	seal, body, whole := bytes.Cut(rest, []byte("\n"))
	r.head, r.body = header{}, body
	return whole && string(seal) == string(canon.Sum(first)) && json.Unmarshal(first, &r.head) == nil &&
		r.head.Form == r.form && r.head.ID == filepath.Base(string(f)) && r.head.Ledger.Fits(string(f)) &&
		// The summary of a lost session is wrong while a new wrapper runs, even if that
		// wrapper has written nothing yet.
		(r.head.Liveness == Ended || !f.Live())
}

// session returns the session from the summary that was read last, and whether its
// body is complete.
func (r *summaryReader) session(f Folder) (k Session, ok bool) {
	status, claims, _ := bytes.Cut(r.body, []byte("\n"))
	k.Folder = f
	if r.head.Damage != nil {
		k.Damage = fmt.Errorf("read ledger %s: %w", f, r.head.Damage) // as ledger.Read does
	}
	return k, canon.Sum(r.body) == r.head.Body && json.Unmarshal(status, &k.Status) == nil && json.Unmarshal(claims, &k.Claims) == nil
}
