package main

import (
	"encoding/json"
	"io"
	"os"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// An eventsFile receives events and receipts when they are durable.
type eventsFile struct {
	w    io.Writer
	file *os.File
}

func openEvents(path string) (*eventsFile, error) {
	switch path {
	case "":
		return &eventsFile{}, nil
	case "-":
		return &eventsFile{w: os.Stderr}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, refused(lifeloop.InternalError, "open the events file: %v", err)
	}
	return &eventsFile{w: f, file: f}, nil
}

func (t *eventsFile) write(e kernel.Entry) {
	if t.w == nil {
		return
	}
	var v any
	if r, ok := view.Event(e.Fact); ok {
		v = r
	} else if r, ok := view.Receipt(e.Fact); ok {
		v = r
	} else {
		return
	}
	line, err := json.Marshal(v)
	if err != nil {
		return
	}
	_, _ = t.w.Write(append(line, '\n')) // a full disk must not end a session whose ledger still works
}

func (t *eventsFile) Close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}
