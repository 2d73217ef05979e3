package main

import (
	"encoding/json"
	"os"
	"slices"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// openEvents opens the file of --events, which stays open until the process ends.
// It returns a function that appends a durable event or receipt; nil without
// --events.
func openEvents(path string) (func(kernel.Entry), error) {
	f := os.Stderr
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		var err error
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, refused(lifeloop.InternalError, "open the events file: %v", err)
		}
	}
	return func(e kernel.Entry) {
		for _, l := range slices.Concat(eventLines(e), receiptLines(e)) {
			if text, err := json.Marshal(l.value); err == nil {
				_, _ = f.Write(append(text, '\n')) // a full disk must not end a session whose ledger still works
			}
		}
	}, nil
}
