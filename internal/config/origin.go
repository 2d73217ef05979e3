package config

import (
	"strconv"
	"strings"
)

// An Origin says where a value comes from. The zero Origin is the default.
type Origin struct {
	File string // a file, with Line
	Line int
	Env  string // or the name of a variable
	Flag string // or the name of a flag, without dashes
}

// String is how people read it: `/path/config.yaml:3`, `env LIFELOOP_TICK`,
// `flag --tick`, `default`.
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
// where it was given. A path that is not there has its default value, or the
// origin of the list or mapping it stands in.
type Origins map[string]Origin

// Of is the origin of the value at path: its own, or that of the nearest
// enclosing value that was given as a whole.
func (o Origins) Of(path string) Origin {
	for path != "" {
		if at, ok := o[path]; ok {
			return at
		}
		// Only lists are given as a whole: a struct's missing member is a default.
		cut := strings.LastIndexByte(path, '[')
		if cut < 0 || strings.Contains(path[cut:], ".") {
			return Origin{}
		}
		path = path[:cut]
	}
	return Origin{}
}

// near is where to look for the mistake when the value at path is wrong or
// missing: its own origin, or that of what it stands in.
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

// drop forgets path and everything below it.
func (o Origins) drop(path string) {
	for p := range o {
		if below(p, path) {
			delete(o, p)
		}
	}
}

// graft copies everything at or below path in from to the path to.
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
