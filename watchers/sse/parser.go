package sse

import (
	"bytes"
	"strconv"
	"time"
)

// A parser splits a stream, which comes in pieces of any size, into events. A line
// ends with \n, \r or both; an event ends with an empty line.
type parser struct {
	max     int
	line    []byte // the part of the current line that was read
	cut     bool   // the line is too long, and its rest is dropped
	afterCR bool   // a leading \n belongs to the previous line
	begun   bool   // the first line was read
	next    event
	id      string        // the last event id
	retry   time.Duration // the pause that the server asks for before a new connection; 0 if none
}

// An event is the data between two empty lines.
type event struct {
	data []byte
	some bool // the event has at least one line of data, which may be empty
	long bool // the event's data exceeds the limit
}

func (p *parser) feed(b []byte, emit func(event)) {
	if p.afterCR && len(b) > 0 {
		p.afterCR = false
		b = bytes.TrimPrefix(b, []byte("\n"))
	}
	for len(b) > 0 {
		n := bytes.IndexAny(b, "\r\n")
		if n < 0 {
			p.keep(b)
			return
		}
		line, end := b[:n], b[n]
		b = b[n+1:]
		if end == '\r' {
			p.afterCR = len(b) == 0
			b = bytes.TrimPrefix(b, []byte("\n"))
		}
		if len(p.line) > 0 {
			p.keep(line)
			line = p.line
		}
		p.whole(line, emit)
		p.line, p.cut = p.line[:0], false
		if cap(p.line) > chunk {
			p.line = nil // release the memory of a long line
		}
	}
}

// keep stores a part of a line, up to the length of the longest line that an event
// may have.
func (p *parser) keep(part []byte) {
	if room := p.max + len("\ufeffdata: ") - len(p.line); len(part) > room {
		part, p.cut = part[:room], true
	}
	p.line = append(p.line, part...)
}

// whole handles one whole line.
func (p *parser) whole(line []byte, emit func(event)) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		e := p.next
		p.next = event{}
		emit(e)
		return
	}
	field, val, _ := bytes.Cut(line, []byte(":"))
	val = bytes.TrimPrefix(val, []byte(" "))
	switch string(field) {
	case "data":
		e := &p.next
		switch {
		case e.long:
		case p.cut || len(e.data)+len(val) > p.max:
			*e = event{long: true}
		case e.some:
			e.data = append(append(e.data, '\n'), val...)
		default:
			e.data, e.some = append(e.data, val...), true
		}
	case "id":
		if bytes.IndexByte(val, 0) < 0 && len(val) < 1024 {
			p.id = string(val)
		}
	case "retry":
		if n, err := strconv.ParseUint(string(val), 10, 31); err == nil {
			p.retry = time.Duration(n) * time.Millisecond
		}
	} // ignore other fields: event names, comments and unknown fields
}
