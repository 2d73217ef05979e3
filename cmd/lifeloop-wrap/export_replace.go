package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lifeloop/evidence"
	"lifeloop/evidence/page"
	"lifeloop/internal/durable"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
)

// replaceable refuses an export that would replace a file that is neither empty nor
// evidence, such as the private key, a ledger or another program's file. replaceable also
// refuses a path in the state folder, and a folder with evidence that must not be mixed
// with the new files (see sameSession). files are the paths of the files to be written.
func replaceable(st store.Store, id string, e exportation, files []string) error {
	refuse := func(format string, args ...any) error {
		return no(lifeloop.InvalidRequest, format, args...).withHint("choose another --out; a file with content is replaced only if it is valid evidence")
	}
	folder := filepath.Dir(e.out)
	if e.folder() {
		folder = e.out
	}
	if within(folder, st.StateDir()) {
		return refuse("cannot write %s: it is in the state folder %s", e.out, st.StateDir())
	}
	if e.folder() {
		if err := sameSession(id, e, files, refuse); err != nil {
			return err
		}
	}
	for _, name := range files {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return cannotWrite(id, err)
		case info.IsDir():
			return refuse("cannot write %s: it is a folder; --kind %s needs a file there", name, e.kind)
		case !info.Mode().IsRegular():
			return refuse("cannot replace %s: it is not a regular file", name)
		case info.Size() == 0:
			continue
		}
		if data, err := durable.ReadFile(name); err != nil || !page.Is(data) && !isEvidence(data, e.folder()) {
			return refuse("cannot replace %s: it is not valid evidence", name)
		}
	}
	return nil
}

// isEvidence reports whether data is valid evidence. If inFolder is set, sameSession has
// checked the folder, and data needs only the form of evidence, because some parts of a
// chain cannot be verified without the other parts.
func isEvidence(data []byte, inFolder bool) bool {
	kind := evidence.Detect(data)
	return kind != "" && (inFolder || evidence.Verify(kind, data, evidence.Options{Beside: besideNothing}).OK)
}

func besideNothing(string) ([]byte, error) { return nil, fs.ErrNotExist }

// sameSession refuses a folder with the chain of another session. It also refuses a
// folder with an old file of the exported kind (a runpack of a chain, or a trace) that
// the export would not replace.
func sameSession(id string, e exportation, files []string, refuse func(string, ...any) error) error {
	if info, err := os.Stat(e.out); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err == nil && !info.IsDir() {
		return refuse("cannot write to %s: it is not a folder; --kind %s needs a folder", e.out, e.kind)
	}
	if data, err := durable.ReadFile(filepath.Join(e.out, evidence.ChainFile)); err == nil {
		if r := evidence.Verify(evidence.ChainKind, data, evidence.Options{Beside: besideNothing}); r.ID != "" && r.ID != id {
			return refuse("cannot write to %s: it has the chain of session %s", e.out, r.ID)
		}
	}
	entries, err := os.ReadDir(e.out)
	if err != nil {
		return cannotWrite(id, err)
	}
	prefix := "cp_"
	if e.kind == "trace" {
		prefix = "trace_"
	}
	for _, one := range entries {
		if name := filepath.Join(e.out, one.Name()); strings.HasPrefix(one.Name(), prefix) && !slices.Contains(files, name) {
			return refuse("cannot write to %s: it contains %s, which would remain among the new files", e.out, one.Name())
		}
	}
	return nil
}

// within reports whether the first folder is the second one or lies below it. Symbolic
// links are followed.
func within(folder, of string) bool {
	folder, err1 := filepath.Abs(folder)
	of, err2 := filepath.Abs(of)
	if err1 != nil || err2 != nil {
		return false // Abs fails only without a working directory; then writing to a relative path fails too
	}
	folder, of = resolved(folder), resolved(of)
	return folder == of || strings.HasPrefix(folder, of+string(filepath.Separator))
}
