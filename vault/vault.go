// Package vault stores continuations. A continuation is what a renewal carries from one
// harness session to the next: a client's data or a harness's hand-over note. A stored
// continuation is called a token. Each token is in a file of mode 0600 in a folder of
// mode 0700.
//
// A token is bound to a renewal, a client, an adapter, a working directory and the
// harness session that ends, and may have an expiry. It is given out once: the vault
// records durably that it was consumed, and only then returns it. After a crash in
// between the token is lost and never given out again.
//
// The vault has no clock and no logger, and does not interpret tokens. Only
// [Vault.Take] returns the text of a token, and no error quotes the text. The files
// are not encrypted: other programs of the same user can read them.
//
//	v := vault.At(folder)
//	ticket, err := v.Put(vault.Binding{Renewal: "r1", Client: "notes", Adapter: id, Dir: dir, HarnessSession: old}, token, expires, now)
//	// ticket.Digest may go into a fact; later, also in another process:
//	token, err := v.Take(ticket, now)
//	var refused *vault.RefusedError
//	if errors.As(err, &refused) && refused.Why == vault.Consumed { … }
package vault

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// MaxToken is the size of the largest token in bytes.
const MaxToken = 1 << 20

// A Binding says which renewal and session a token belongs to. A token is only
// given out for the binding with which it was stored.
type Binding struct {
	Renewal        string `json:"renewal"`
	Client         string `json:"client"`
	Adapter        string `json:"adapter"`
	Dir            string `json:"dir"`             // the working directory
	HarnessSession string `json:"harness_session"` // the harness session that the renewal ends
}

// A Ticket identifies a stored token. It contains no part of the text.
type Ticket struct {
	Binding
	Digest  canon.Digest `json:"digest"`
	Bytes   int          `json:"bytes"`
	Stored  int64        `json:"stored_at_epoch_s"`
	Expires int64        `json:"expires_at_epoch_s,omitempty"` // 0 means that it does not expire
}

// key returns the file name for a ticket, without the suffix. If a client issues
// the same token for another renewal, that token has another key.
func (t Ticket) key() (string, error) {
	text, err := canon.Marshal(struct {
		Binding
		Digest canon.Digest `json:"digest"`
	}{t.Binding, t.Digest})
	if err != nil {
		return "", fmt.Errorf("compute the file name of a continuation token: %w", err)
	}
	return strings.TrimPrefix(string(canon.Sum(text)), "sha256:"), nil
}

// expired reports whether the token may no longer be given out at now.
func (t Ticket) expired(now time.Time) bool { return t.Expires != 0 && now.Unix() >= t.Expires }

// A Reason says why a token is not given out.
type Reason string

const (
	Missing   Reason = "missing"   // never stored with this binding, or its record was removed
	Consumed  Reason = "consumed"  // given out before, perhaps to a process that then crashed
	Expired   Reason = "expired"   // the token expired before it was consumed
	Discarded Reason = "discarded" // erased by Discard or Clear, for example after a rollback of the renewal
	Damaged   Reason = "damaged"   // the file was changed
)

// A RefusedError means that the vault does not give out a token.
type RefusedError struct {
	Why    Reason
	Digest canon.Digest
}

func (e *RefusedError) Error() string {
	how := map[Reason]string{
		Missing:   "is not in the vault for this renewal, client, adapter, folder and harness session",
		Consumed:  "was already consumed; a token is given out once",
		Expired:   "has expired",
		Discarded: "was discarded before it was consumed",
		Damaged:   "cannot be read back as it was stored; its file was changed",
	}[e.Why]
	return fmt.Sprintf("the continuation %s %s", e.Digest, how)
}

// The suffixes of the vault's files. A token has ended when it was consumed or
// discarded, or it expired. The file that records the end is created exclusively, so
// only one of several callers can end a token. A token that has ended cannot be stored
// again.
const (
	heldEnd = ".held" // a stored token: the JSON of a deposit
	overEnd = ".over" // a token that has ended: the JSON of an ending, which may be incomplete after a crash
)

// A deposit is the content of a held file.
type deposit struct {
	Ticket
	Token string `json:"token"`
}

// An ending records how and when a token ended: it was consumed or discarded, or it
// expired.
type ending struct {
	Ticket
	Why Reason `json:"why"`
	At  int64  `json:"at_epoch_s"`
}

// A Vault is a folder of tokens. Several processes may use it at the same time.
type Vault struct {
	dir string
	// testOnlyStep is called between the steps of a change.
	testOnlyStep func(step string)
}

// At returns the vault in dir. The first Put creates the folder.
func At(dir string) *Vault { return &Vault{dir: dir, testOnlyStep: func(string) {}} }

// Put stores a token durably. expires is in seconds since 1970; 0 means never.
// If the token is already stored with this binding, Put writes it again. Put
// refuses a token that was consumed or discarded or has expired.
func (v *Vault) Put(b Binding, token Token, expires int64, now time.Time) (Ticket, error) {
	t := Ticket{Binding: b, Digest: token.Digest(), Bytes: token.Len(), Stored: now.Unix(), Expires: expires}
	switch {
	case token.Len() == 0:
		return t, errors.New("store a continuation: it is empty")
	case token.Len() > MaxToken:
		return t, fmt.Errorf("store a continuation: it has %d bytes; the limit is %d", token.Len(), MaxToken)
	case !utf8.ValidString(token.Reveal()):
		return t, errors.New("store a continuation: it is not UTF-8")
	case t.expired(now):
		return t, &RefusedError{Expired, t.Digest}
	}
	key, err := t.key()
	if err != nil {
		return t, err
	}
	if err := durable.Private(v.dir); err != nil {
		return t, fmt.Errorf("store a continuation: %w", err)
	}
	if why, over := v.over(key); over {
		return t, &RefusedError{why, t.Digest}
	}
	text, err := json.Marshal(deposit{t, token.Reveal()})
	if err != nil {
		return t, fmt.Errorf("store a continuation: %w", err)
	}
	// Another process's Sweep may remove the temporary file before it is renamed.
	for range 3 {
		if err = durable.WriteFile(v.path(key, heldEnd), text, 0o600); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return t, fmt.Errorf("store a continuation: %w", err)
	}
	if why, over := v.over(key); over { // another caller has taken the token meanwhile
		return t, errors.Join(&RefusedError{why, t.Digest}, v.remove(key, heldEnd))
	}
	return t, nil
}

func (v *Vault) path(key, end string) string { return filepath.Join(v.dir, key+end) }

// Take gives out a token, once. When it returns nil, the record that the token was
// consumed is durable. A refusal is a [*RefusedError]. After any other error the
// token may be consumed, although it was not given out.
func (v *Vault) Take(t Ticket, now time.Time) (Token, error) {
	key, d, err := v.find(t)
	if err != nil {
		return Token{}, err
	}
	why := Consumed
	if d.expired(now) {
		why = Expired
	}
	if err := v.end(key, d, why, now); err != nil {
		return Token{}, err
	}
	if why != Consumed {
		return Token{}, &RefusedError{why, t.Digest}
	}
	return NewToken(d.Token), nil
}

// Discard removes a token that will not be delivered. It returns a
// [*RefusedError] if the token is not stored.
func (v *Vault) Discard(t Ticket, now time.Time) error {
	key, d, err := v.find(t)
	if err != nil {
		return err
	}
	return v.end(key, d, Discarded, now)
}

// find returns the stored token of a ticket.
func (v *Vault) find(t Ticket) (key string, d deposit, err error) {
	if key, err = t.key(); err != nil {
		return key, d, err
	}
	d, err = v.read(key)
	if why, over := v.over(key); over || errors.Is(err, fs.ErrNotExist) {
		return key, d, &RefusedError{why, t.Digest}
	}
	if err != nil {
		return key, d, err
	}
	if have := canon.Sum([]byte(d.Token)); have != t.Digest || d.Binding != t.Binding || d.Digest != t.Digest {
		return key, d, &RefusedError{Damaged, t.Digest}
	}
	return key, d, nil
}

// read reads a held file. The vault must be as private as Put requires, or another
// user could have put the file there. The error never quotes the content.
func (v *Vault) read(key string) (d deposit, err error) {
	if err := durable.IsPrivate(v.dir); err != nil {
		return d, fmt.Errorf("read a continuation: %w", err)
	}
	text, err := durable.ReadFile(v.path(key, heldEnd))
	if err == nil && json.Unmarshal(text, &d) != nil {
		err = fmt.Errorf("read the continuation in %s: the file is damaged (remove it)", v.path(key, heldEnd))
	}
	return d, err
}

// over reports whether the token with this key has ended, and why. An incomplete
// record, which a crash has left, means that the token was consumed.
func (v *Vault) over(key string) (why Reason, over bool) {
	e, err := v.ending(key)
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, false
	}
	return e.Why, true
}

// ending reads the record of an ended token. For an incomplete record, the time
// is zero.
func (v *Vault) ending(key string) (ending, error) {
	text, err := durable.ReadFile(v.path(key, overEnd))
	if err != nil {
		return ending{Why: Consumed}, err
	}
	e := ending{}
	if json.Unmarshal(text, &e) != nil || e.Why == "" {
		return ending{Why: Consumed}, nil
	}
	return e, nil
}

// end records the end of a token, and then erases its text. The record is created
// exclusively, so that only one of several callers succeeds. It is durable before
// the text is used, so that the token stays ended after a crash.
func (v *Vault) end(key string, d deposit, why Reason, now time.Time) error {
	text, err := json.Marshal(ending{d.Ticket, why, now.Unix()})
	if err != nil {
		return fmt.Errorf("record the end of a continuation: %w", err)
	}
	v.testOnlyStep("read")
	switch err := v.record(v.path(key, overEnd), text); {
	case errors.Is(err, fs.ErrExist):
		was, _ := v.over(key)
		return &RefusedError{was, d.Digest}
	case err != nil:
		return fmt.Errorf("record the end of a continuation: %w", err)
	}
	v.testOnlyStep("recorded")
	if err := v.remove(key, heldEnd); err != nil {
		return fmt.Errorf("erase the text of a continuation: %w", err)
	}
	v.testOnlyStep("erased")
	return nil
}

// record creates a file and makes it durable. It is an error if the file exists.
func (v *Vault) record(path string, text []byte) error {
	f, err := durable.Open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	v.testOnlyStep("created")
	_, err = f.Write(text)
	return cmp.Or(err, f.Sync(), f.Close(), durable.SyncDir(v.dir))
}

// remove removes a file durably. It is not an error if the file does not exist.
func (v *Vault) remove(key, end string) error {
	if err := os.Remove(v.path(key, end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(v.dir)
}

// Held lists the stored tokens whose bindings match and that have not expired at
// now, the oldest first. The list includes tokens that other processes stored.
func (v *Vault) Held(match func(Binding) bool, now time.Time) ([]Ticket, error) {
	var found []Ticket
	err := v.each(heldEnd, func(key string) error {
		d, err := v.read(key)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process has taken the token
		}
		if err == nil && match(d.Binding) && !d.expired(now) {
			found = append(found, d.Ticket)
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b Ticket) int { return int(a.Stored - b.Stored) })
	return found, err
}

// given is the prefix of the names of the files that [Vault.File] makes for programs.
const given = ".given-"

// Sweep cleans up after crashes: it erases the texts of ended and expired tokens,
// removes the files of interrupted writes, and calls [Vault.Ungive]. It also removes the
// records of tokens that ended before keep. keep must be at least a day ago, because a
// token without a record could be stored again. Other callers may use the vault at the
// same time.
func (v *Vault) Sweep(now, keep time.Time) error {
	err := v.each(heldEnd, func(key string) error {
		if d, err := v.read(key); err == nil && d.expired(now) {
			return v.end(key, d, Expired, now)
		}
		return nil
	})
	return errors.Join(err, v.each(overEnd, func(key string) error {
		err := v.remove(key, heldEnd) // remove the text before the record, so that the token stays ended after a crash in between
		if e, read := v.ending(key); err == nil && read == nil && e.At != 0 && e.At < keep.Unix() {
			err = v.remove(key, overEnd)
		}
		return err
	}), v.Ungive(), v.removeParts(func(name string) bool { return !strings.HasPrefix(name, given) }))
}

// Ungive removes the files that [Vault.File] made in processes that have ended. A
// program that such a process started may still run and lose its file. This does no harm,
// because nothing reads the program's output. Other callers may use the vault at the same
// time.
func (v *Vault) Ungive() error {
	names, err := v.names()
	for _, name := range names {
		if !strings.HasPrefix(name, given) {
			continue
		}
		path := filepath.Join(v.dir, name)
		lock, held := durable.Lock(path)
		if _, is := errors.AsType[*durable.LockedError](held); is {
			continue
		}
		if held != nil {
			err = errors.Join(err, held)
			continue
		}
		if gone := os.Remove(path); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		err = errors.Join(err, lock.Unlock())
	}
	return err
}

// Clear erases the texts of all tokens in the vault, for a session in which nothing can
// use them any more. No other process may use the vault at the same time.
func (v *Vault) Clear(now time.Time) error {
	err := v.Sweep(now, now.AddDate(0, 0, -1))
	return errors.Join(err, v.removeParts(func(name string) bool { return strings.HasPrefix(name, given) }), v.each(heldEnd, func(key string) error {
		d, err := v.read(key)
		if err != nil { // a damaged file is of no use to anyone
			return v.remove(key, heldEnd)
		}
		return v.end(key, d, Discarded, now)
	}))
}

// each calls f with the key of every file that has this suffix.
func (v *Vault) each(end string, f func(key string) error) error {
	names, err := v.names()
	for _, name := range names {
		if key, ok := strings.CutSuffix(name, end); ok && !strings.HasPrefix(name, ".") {
			err = errors.Join(err, f(key))
		}
	}
	return err
}

// removeParts removes each temporary file for which match returns true. The names of
// temporary files begin with a dot.
func (v *Vault) removeParts(match func(name string) bool) error {
	names, err := v.names()
	for _, name := range names {
		if strings.HasPrefix(name, ".") && match(name) {
			if gone := os.Remove(filepath.Join(v.dir, name)); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

func (v *Vault) names() (names []string, err error) {
	entries, err := os.ReadDir(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// File writes a taken token to a file of mode 0600, for a program that reads the
// token from a file. The caller calls remove when the program has ended. The file is
// locked until then, so that Ungive removes it only if this process was killed.
func (v *Vault) File(token Token) (path string, remove func(), err error) {
	f, lock, err := v.lockedFile()
	if err != nil {
		return "", nil, fmt.Errorf("write a continuation to a file for a program: %w", err)
	}
	remove = func() {
		_ = os.Remove(f.Name())
		_ = lock.Unlock()
	}
	err = f.Truncate(0) // remove the process id, which durable.Lock has written
	if err == nil {
		_, err = f.WriteString(token.Reveal())
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a continuation to a file for a program: %w", err)
	}
	return f.Name(), remove, nil
}

// lockedFile creates and locks a file, so that Ungive does not remove it.
func (v *Vault) lockedFile() (*os.File, *durable.FileLock, error) {
	for {
		f, err := os.CreateTemp(v.dir, given+"*")
		if err != nil {
			return nil, nil, err
		}
		lock, err := durable.Lock(f.Name())
		if err == nil {
			created, errCreated := f.Stat()
			named, errNamed := os.Lstat(f.Name())
			if errCreated == nil && errNamed == nil && os.SameFile(created, named) {
				return f, lock, nil
			}
			_ = lock.Unlock()
		}
		_ = f.Close()
		if _, locked := errors.AsType[*durable.LockedError](err); err == nil || locked {
			// Before this process had locked the file, Ungive found it unlocked, and has
			// removed it or is about to remove it.
			continue
		}
		_ = os.Remove(f.Name())
		return nil, nil, err
	}
}
