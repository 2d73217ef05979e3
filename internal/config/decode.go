package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lifeloop/internal/nearest"
)

// A configuration file is bounded in size, and in how deep its brackets nest:
// the parser's time grows with the square of the depth, and a project's file
// may come from anyone.
const (
	maxFile  = 64 << 10
	maxDepth = 100
)

func isDuration(v reflect.Value) bool { return v.Type() == reflect.TypeFor[time.Duration]() }

// A layer decodes one source into a value and notes where each part came from.
type layer struct {
	file    string
	origins Origins
}

// parse reads one YAML document; nil means that there is nothing in it.
func parse(file string, data []byte) (root ast.Node, err error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d KiB; this is no configuration file", file, maxFile>>10)
	}
	if depth(data) > maxDepth {
		return nil, fmt.Errorf("%s: brackets nest deeper than %d", file, maxDepth)
	}
	// The parser is not ours, and what it reads may be anything.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("%s: not YAML: %v", file, p)
		}
	}()
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			pos := at.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: %s", file, pos.Line, pos.Column, at.GetMessage())
		}
		return nil, fmt.Errorf("%s: not YAML: %w", file, err)
	}
	for _, d := range doc.Docs {
		if d == nil || d.Body == nil {
			continue
		}
		if root != nil {
			l := layer{file: file}
			return nil, l.errorf(d.Body, "a second document; one file is one document")
		}
		root = d.Body
	}
	if _, empty := root.(*ast.CommentGroupNode); empty {
		return nil, nil
	}
	return root, nil
}

// depth is the largest number of brackets open at once, strings and comments
// taken as they stand.
func depth(data []byte) int {
	open, most := 0, 0
	for _, b := range data {
		switch b {
		case '[', '{':
			open++
			most = max(most, open)
		case ']', '}':
			open--
		}
	}
	return most
}

// at names the place of n: file:line:col.
func (l layer) at(n ast.Node) string {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return fmt.Sprintf("%s:%d:%d", l.file, tk.Position.Line, tk.Position.Column)
	}
	return l.file
}

func (l layer) errorf(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", l.at(n), fmt.Sprintf(format, args...))
}

// note remembers where the value at path was given.
func (l layer) note(path string, n ast.Node) {
	at := Origin{File: l.file}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		at.Line = tk.Position.Line
	}
	l.origins[path] = at
}

// decode reads n into v. Members that n does not give keep the value they have.
func (l layer) decode(n ast.Node, v reflect.Value, path string, ms bool) error {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.DirectiveNode:
		return l.errorf(n, "%sanchors, aliases and tags are not read here; write the value out", colon(path))
	}
	if v.Kind() == reflect.Struct {
		return l.structure(n, v, path)
	}
	if v.Kind() == reflect.Map {
		return l.dict(n, v, path) // free keys are merged one by one, each with its origin
	}
	l.note(path, n)
	if v.Kind() == reflect.Slice {
		return l.list(n, v, path)
	}
	return l.scalar(n, v, path, ms)
}

func (l layer) structure(n ast.Node, v reflect.Value, path string) error {
	pairs, ok := mapping(n)
	if !ok {
		return l.wrong(n, path, "a mapping")
	}
	for _, kv := range pairs {
		name, ok := scalarText(kv.Key)
		if !ok {
			return l.errorf(kv.Key, "%sa key must be a plain word", colon(path))
		}
		f, ok := fieldByKey(v.Type(), name)
		if !ok {
			return l.errorf(kv.Key, "unknown key %q%s; the nearest known key is %q", name, in(path), nearestKey(v.Type(), name))
		}
		if err := l.decode(kv.Value, v.Field(f.index), join(path, name), f.ms); err != nil {
			return err
		}
	}
	return nil
}

func (l layer) list(n ast.Node, v reflect.Value, path string) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return l.wrong(n, path, "a list")
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		switch e := out.Index(i).Addr().Interface().(type) {
		case *Client:
			*e = defaultClient()
		case *Guardrail:
			*e = defaultGuardrail()
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		if item == nil {
			return l.errorf(n, "%s: an empty entry", at)
		}
		l.note(at, item)
		if err := l.decode(item, out.Index(i), at, false); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

func (l layer) dict(n ast.Node, v reflect.Value, path string) error {
	pairs, ok := mapping(n)
	if !ok {
		return l.wrong(n, path, "a mapping")
	}
	// A fresh map: the one in v may belong to someone else's Config.
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for _, kv := range pairs {
		name, ok := scalarText(kv.Key)
		if !ok {
			return l.errorf(kv.Key, "%sa key must be a plain word or a number", colon(path))
		}
		e := reflect.New(v.Type().Elem()).Elem()
		if err := l.decode(kv.Value, e, join(path, name), false); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(name), e)
	}
	v.Set(out)
	return nil
}

func (l layer) scalar(n ast.Node, v reflect.Value, path string, ms bool) error {
	switch want := kindWords(v, ms); n := n.(type) {
	case *ast.StringNode:
		if v.Kind() == reflect.String {
			v.SetString(n.Value)
			return nil
		}
		if isDuration(v) && !ms {
			if err := setText(v, n.Value, ms); err != nil {
				return l.errorf(n, "%s%v", colon(path), err)
			}
			return nil
		}
		return l.wrong(n, path, want)
	case *ast.LiteralNode:
		if v.Kind() == reflect.String && n.Value != nil {
			v.SetString(n.Value.Value)
			return nil
		}
		return l.wrong(n, path, want)
	case *ast.BoolNode:
		if v.Kind() == reflect.Bool {
			v.SetBool(n.Value)
			return nil
		}
		return l.wrong(n, path, want)
	case *ast.FloatNode:
		if v.Kind() == reflect.Float64 {
			v.SetFloat(n.Value)
			return nil
		}
		return l.wrong(n, path, want)
	case *ast.IntegerNode:
		i, ok := whole(n)
		switch {
		case !ok:
			return l.errorf(n, "%sthe number is out of range", colon(path))
		case v.Kind() == reflect.Float64:
			v.SetFloat(float64(i))
			return nil
		case v.Kind() == reflect.Int:
			v.SetInt(i)
			return nil
		case isDuration(v) && ms:
			if i < 0 || i > math.MaxInt64/int64(time.Millisecond) {
				return l.errorf(n, "%sexpected %s, found %d", colon(path), want, i)
			}
			v.SetInt(i * int64(time.Millisecond))
			return nil
		case isDuration(v) && i == 0:
			v.SetInt(0)
			return nil
		}
		return l.wrong(n, path, want)
	}
	return l.wrong(n, path, kindWords(v, ms))
}

func (l layer) wrong(n ast.Node, path, want string) error {
	hint := ""
	if _, number := n.(*ast.IntegerNode); number && want == "a string" {
		hint = "; put it in quotes"
	}
	return l.errorf(n, "%sexpected %s, found %s%s", colon(path), want, describe(n), hint)
}

// setText reads the text of a variable or a flag into a scalar.
func setText(v reflect.Value, text string, ms bool) error {
	want := kindWords(v, false)
	switch {
	case isDuration(v):
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("expected %s, found %q", want, text)
		}
		if ms && d%time.Millisecond != 0 {
			return fmt.Errorf("expected whole milliseconds, found %q", text)
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("expected %s, found %q", want, text)
		}
		v.SetBool(text == "true")
	case v.Kind() == reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("expected %s, found %q", want, text)
		}
		v.SetInt(int64(i))
	case v.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Errorf("expected %s, found %q", want, text)
		}
		v.SetFloat(f)
	}
	return nil
}

// A field is one key of a struct.
type field struct {
	index int
	key   string
	ms    bool
}

// fields lists the keys of t in the order of its members.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		key, opt, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		out = append(out, field{index: i, key: key, ms: opt == "ms"})
	}
	return out
}

func fieldByKey(t reflect.Type, key string) (field, bool) {
	for _, f := range fields(t) {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// nearestKey is the key of t most like name.
func nearestKey(t reflect.Type, name string) string {
	var keys []string
	for _, f := range fields(t) {
		keys = append(keys, f.key)
	}
	return nearest.Word(name, keys)
}

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func scalarText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode:
		return k.GetToken().Value, true
	case *ast.MergeKeyNode:
		return "<<", true
	}
	return "", false
}

func whole(n *ast.IntegerNode) (int64, bool) {
	switch i := n.Value.(type) {
	case int64:
		return i, true
	case uint64:
		return int64(i), i <= math.MaxInt64
	}
	return 0, false
}

// kindWords says in words what v holds.
func kindWords(v reflect.Value, ms bool) string {
	switch {
	case isDuration(v) && ms:
		return "whole milliseconds"
	case isDuration(v):
		return "a duration such as 5s"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}

func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return strconv.Quote(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return "something else"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func colon(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}
