package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lifeloop/canon"
)

// Genesis is the prev of the first entry: 64 zeros, which are not the digest of
// any entry.
const Genesis canon.Digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// maxLine is the longest line in bytes. It bounds the memory for reading an unknown
// file.
const maxLine = 16 << 20

const maxKind = 64

// A Record is what a caller appends.
type Record struct {
	Kind string          // 1 to 64 characters out of A-Z a-z 0-9 . _ -
	At   time.Time       // written in UTC
	Body json.RawMessage // a JSON object
}

// An Entry is a record at its place in the ledger.
type Entry struct {
	Seq uint64 // 1 for the first entry
	Record
	Prev, Digest canon.Digest
}

// A link identifies the last entry of a chain; the next entry must follow it.
type link struct {
	seq    uint64
	digest canon.Digest
}

var genesis = link{0, Genesis}

// The fixed pieces of a line, in order. Existing ledgers contain them: do not
// change them.
const (
	atPiece     = `{"at":"`
	bodyPiece   = `","body":`
	digestPiece = `"digest":"`
	kindPiece   = `"kind":"`
	prevPiece   = `","prev":"`
	seqPiece    = `","seq":`

	digestMember = len(digestPiece) + canon.DigestLen + len(`",`)

	timeLayout = "2006-01-02T15:04:05.000000000Z"
	bodyStart  = len(atPiece) + len(timeLayout) + len(bodyPiece)
)

// appendEntry appends the line of r with its LF, and returns the entry that a
// reader of the line gets. On an error it returns buf unchanged.
func appendEntry(buf []byte, after link, r Record) ([]byte, Entry, error) {
	if !validKind(r.Kind) {
		return buf, Entry{}, fmt.Errorf("kind %.80q is not 1 to %d characters out of A-Z a-z 0-9 . _ -", r.Kind, maxKind)
	}
	at := r.At.UTC()
	if y := at.Year(); y < 0 || y > 9999 {
		return buf, Entry{}, fmt.Errorf("the year %d has no RFC 3339 form", y)
	}
	start := len(buf)
	line := append(buf, atPiece...)
	line = at.AppendFormat(line, timeLayout)
	line = append(line, bodyPiece...)
	line, err := canon.Append(line, r.Body)
	if err != nil {
		return buf, Entry{}, fmt.Errorf("body: %w", err)
	}
	body := line[start+bodyStart:]
	if body[0] != '{' {
		return buf, Entry{}, fmt.Errorf("body is not a JSON object")
	}
	// If the caller's bytes are canonical, the entry shares them. Otherwise it gets a
	// copy, because the next Append overwrites the buffer.
	if bytes.Equal(body, r.Body) {
		body = r.Body
	} else {
		body = bytes.Clone(body)
	}
	line = append(line, ',')

	// The digest covers the line without the digest. Canonical order puts it
	// between the body and the kind.
	place := len(line)
	seq := after.seq + 1
	line = append(line, kindPiece...)
	line = append(line, r.Kind...)
	line = append(line, prevPiece...)
	line = append(line, after.digest...)
	line = append(line, seqPiece...)
	line = strconv.AppendUint(line, seq, 10)
	line = append(line, '}')
	digest := canon.Sum(line[start:])
	var text [digestMember]byte
	member := append(text[:0], digestPiece...)
	member = append(member, digest...)
	member = append(member, `",`...)
	line = slices.Insert(line, place, member...)
	if len(line)-start > maxLine {
		return buf, Entry{}, fmt.Errorf("the entry has %d bytes, more than %d", len(line)-start, maxLine)
	}
	line = append(line, '\n')
	return line, Entry{
		Seq:    seq,
		Record: Record{Kind: r.Kind, At: at, Body: body},
		Prev:   after.digest,
		Digest: digest,
	}, nil
}

// parse reads a line without its LF and checks what one line can prove: its form
// and its digest. It returns an entry, which shares no memory with the line, or the
// reason why the line is not an entry.
func parse(line []byte) (e Entry, why string) {
	// Parse backward, because the members at the end have a fixed form, and the body
	// before them may contain anything.
	rest := backward{line: line}
	end := rest.lineEnd()
	tail := line[len(rest.line):]
	rest.word(`",`)
	digest := rest.take(canon.DigestLen)
	rest.word(digestPiece)
	head := rest.line
	rest.word(",")
	if rest.bad || len(rest.line) < bodyStart {
		return Entry{}, "not a ledger entry"
	}
	start, body := rest.line[:bodyStart], rest.line[bodyStart:]
	stamp := start[len(atPiece) : len(atPiece)+len(timeLayout)]
	if string(start[:len(atPiece)]) != atPiece || string(start[len(atPiece)+len(timeLayout):]) != bodyPiece {
		return Entry{}, "not a ledger entry"
	}

	if own := canon.Sum(slices.Concat(head, tail)); string(digest) != string(own) {
		return Entry{}, "the digest does not match: the line was changed after it was written"
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil || at.UTC().Format(timeLayout) != string(stamp) {
		return Entry{}, fmt.Sprintf(`the member "at" is %q, not a UTC time with nine decimals`, stamp)
	}
	seq, err := strconv.ParseUint(string(end.seq), 10, 64)
	if err != nil || seq == 0 || end.seq[0] == '0' {
		return Entry{}, fmt.Sprintf(`the member "seq" is %.30q, not a positive number without leading zeros`, end.seq)
	}
	if !canon.Digest(end.prev).Valid() {
		return Entry{}, "prev is not a digest"
	}
	if !validKind(string(end.kind)) {
		return Entry{}, fmt.Sprintf("kind %.80q is not 1 to %d characters out of A-Z a-z 0-9 . _ -", end.kind, maxKind)
	}
	if !canon.Is(body) || body[0] != '{' {
		return Entry{}, "the body is not a canonical JSON object"
	}
	return Entry{
		Seq:    seq,
		Record: Record{Kind: string(end.kind), At: at, Body: bytes.Clone(body)},
		Prev:   canon.Digest(end.prev),
		Digest: canon.Digest(digest),
	}, ""
}

// follows returns the reason why e cannot come after l, or "" if it can.
func (l link) follows(e Entry) (why string) {
	if why := l.next(e.Seq); why != "" || e.Prev == l.digest {
		return why
	}
	return fmt.Sprintf("entry %d does not link to the entry before it", e.Seq)
}

// next returns the reason why the entry with this number cannot come after l, or "" if
// it can.
func (l link) next(seq uint64) (why string) {
	switch {
	case seq > l.seq+1 && l.seq == 0:
		return fmt.Sprintf("the ledger begins with entry %d: the entries before it are missing", seq)
	case seq > l.seq+1:
		return fmt.Sprintf("entry %d follows entry %d: the entries between them are missing", seq, l.seq)
	case seq <= l.seq:
		return fmt.Sprintf("entry %d follows entry %d: a line is repeated or in the wrong place", seq, l.seq)
	}
	return ""
}

// backward takes pieces off the end of a line. If a piece is missing, it sets bad
// and takes nothing more.
type backward struct {
	line []byte
	bad  bool
}

// A lineEnd holds the members that follow the digest in a line.
type lineEnd struct{ kind, prev, seq []byte }

func (b *backward) lineEnd() (t lineEnd) {
	b.word("}")
	t.seq = b.while(isDigit)
	b.word(seqPiece)
	t.prev = b.take(canon.DigestLen)
	b.word(prevPiece)
	t.kind = b.while(isKindByte)
	b.word(kindPiece)
	return t
}

func (b *backward) word(s string) {
	rest, ok := bytes.CutSuffix(b.line, []byte(s))
	if b.bad = b.bad || !ok; !b.bad {
		b.line = rest
	}
}

func (b *backward) take(n int) []byte {
	if b.bad = b.bad || len(b.line) < n; b.bad {
		return nil
	}
	return b.cut(len(b.line) - n)
}

func (b *backward) while(ok func(byte) bool) []byte {
	at := len(b.line)
	for at > 0 && ok(b.line[at-1]) {
		at--
	}
	if b.bad = b.bad || at == len(b.line); b.bad {
		return nil
	}
	return b.cut(at)
}

func (b *backward) cut(at int) []byte {
	piece := b.line[at:]
	b.line = b.line[:at]
	return piece
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isKindByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == '.', c == '_', c == '-':
		return true
	}
	return false
}

func validKind(kind string) bool {
	if kind == "" || len(kind) > maxKind {
		return false
	}
	for i := range len(kind) {
		if !isKindByte(kind[i]) {
			return false
		}
	}
	return true
}
