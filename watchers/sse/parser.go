package sse

import (
	"bytes"
	"strconv"
	"time"
)

// A parser takes a stream apart, in whatever pieces it comes. A line ends with
// \n, \r or both; an event with an empty line.
type parser struct {
	max     int
	line    []byte // the line that is not whole yet
	cut     bool   // it is too long: its rest is dropped
	afterCR bool   // a \n that comes first belongs to the line before
	begun   bool   // the first line was seen
	next    event
	id      string        // of the newest event that had one
	retry   time.Duration // the pause that the server asked for
}

// An event is the data between two empty lines.
type event struct {
	data []byte
	some bool // it has data, if only an empty line
	long bool // it was longer than allowed
}

func (p *parser) feed(b []byte, tell func(event)) {
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
		p.whole(line, tell)
		p.line, p.cut = p.line[:0], false
		if cap(p.line) > chunk {
			p.line = nil // a long line is over: do not keep its room
		}
	}
}

// keep holds a part of a line back. Nothing is held of what goes beyond the
// longest line that an event may have.
func (p *parser) keep(part []byte) {
	if room := p.max + len("\ufeffdata: ") - len(p.line); len(part) > room {
		part, p.cut = part[:room], true
	}
	p.line = append(p.line, part...)
}

func (p *parser) whole(line []byte, tell func(event)) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		e := p.next
		p.next = event{}
		tell(e)
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
	} // else the name of an event, a comment, or what a later server may send
}
