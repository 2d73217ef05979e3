package config

import (
	"strconv"
	"strings"
)

// An Origin is the source of a value: a file, a variable or a flag. The zero Origin means
// that the value is the default.
type Origin struct {
	File string // the path of the file; empty if the value is not from a file
	Line int
	Env  string // the name of the variable; empty if the value is not from a variable
	Flag string // the name of the flag without dashes; empty if the value is not from a flag
}

// String returns the origin as text: `/path/config.yaml:3`, `env LIFELOOP_TICK`, `flag
// --tick` or `default`.
func (o Origin) String() string {
	switch {
	case o.File != "":
		return o.File + ":" + strconv.Itoa(o.Line)
	case o.Env != "":
		return "env " + o.Env
	case o.Flag != "":
		return "flag --" + o.Flag
	}
	return "default"
}

// Origins maps the path of a value (`pressure.high`, `clients[0].timeout`) to
// its origin. If a path is not in the map, its value is the default. But if the path is
// that of a list entry, the value has the origin of the list.
type Origins map[string]Origin

// Of returns the origin of the value at path. If the value has no origin of its own, it
// has the origin of the list if it is a list entry; otherwise it is the default.
func (o Origins) Of(path string) Origin {
	for path != "" {
		if at, ok := o[path]; ok {
			return at
		}
		// An entry with no origin of its own was set together with its list. A member of
		// a struct with no origin of its own has the default value.
		cut := strings.LastIndexByte(path, '[')
		if cut < 0 || strings.Contains(path[cut:], ".") {
			return Origin{}
		}
		path = path[:cut]
	}
	return Origin{}
}

// near returns the origin for an error about the value at path: the origin of
// that value, or of the nearest enclosing value.
func (o Origins) near(path string) Origin {
	for {
		if at, ok := o[path]; ok {
			return at
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return Origin{}
		}
		path = path[:cut]
	}
}

// drop deletes path and everything below it.
func (o Origins) drop(path string) {
	for p := range o {
		if below(p, path) {
			delete(o, p)
		}
	}
}

// graft copies to o the origins that the map `from` has for the value at path and for the
// values below it. In the keys of the copies, `to` takes the place of path.
func (o Origins) graft(from Origins, path, to string) {
	for p, at := range from {
		if below(p, path) {
			o[to+p[len(path):]] = at
		}
	}
}

func below(p, path string) bool {
	rest, ok := strings.CutPrefix(p, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
