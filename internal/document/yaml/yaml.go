// Package yaml parses one YAML document into a [document.Value]. JSON is parsed
// as JSON, so that tabs and repeated keys are treated as in JSON.
//
// It rejects lists and mappings that nest too deep, a second document, and a key that is
// neither a string nor a whole number.
//
//	doc, err := yaml.Parse(data)
//	if fault, ok := errors.AsType[*document.Error](err); ok { fmt.Println(fault.In(file)) }
package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lifeloop/internal/document"
)

// maxDepth bounds how deep lists and mappings nest, by brackets and by
// indentation: the parser's time grows with the square of the depth.
const maxDepth = 100

// Parse parses data. If data contains no value, Parse returns a value of the kind
// [document.Null] without a position.
func Parse(data []byte) (root document.Value, err error) {
	if json.Valid(data) {
		return document.ParseJSON(data)
	}
	if depth(data) > maxDepth {
		return root, &document.Error{What: fmt.Sprintf("brackets nest deeper than %d", maxDepth)}
	}
	if line := tooDeep(data); line > 0 {
		return root, &document.Error{Line: line, Column: 1, What: fmt.Sprintf("lists and mappings nest deeper than %d", maxDepth)}
	}
	// Recover, because the library that parses may panic on some inputs.
	defer func() {
		if p := recover(); p != nil {
			root, err = document.Value{}, &document.Error{What: fmt.Sprintf("not YAML: %v", p)}
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var at goyaml.Error
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			pos := at.GetToken().Position
			return root, &document.Error{Line: pos.Line, Column: pos.Column, What: at.GetMessage()}
		}
		return root, &document.Error{What: "not YAML: " + err.Error()}
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d == nil || d.Body == nil {
			continue
		}
		if body != nil {
			return root, position(d.Body).Errorf("", "a second document; a file may contain only one")
		}
		body = d.Body
	}
	if _, comments := body.(*ast.CommentGroupNode); comments || body == nil {
		return root, nil
	}
	return value(body)
}

// depth is the largest number of brackets open at once. It counts those in
// strings and comments too.
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

// tooDeep returns the first line that is nested too deep by its indentation, or 0.
// A line is enclosed by the lines above it with less indentation, and by each
// "- ", "? " and ": " before its content. Lines of multi-line strings count too.
func tooDeep(data []byte) int {
	var columns []int // the columns of the enclosing lines, in increasing order
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimRight(line, " \t\r\n")
		at := 0
		for ; at < len(line); at++ {
			if line[at] == ' ' || line[at] == '\t' {
				continue
			}
			if line[at] == '#' {
				break
			}
			for len(columns) > 0 && columns[len(columns)-1] >= at {
				columns = columns[:len(columns)-1]
			}
			if columns = append(columns, at); len(columns) > maxDepth {
				return number
			}
			nests := bytes.IndexByte([]byte("-?:"), line[at]) >= 0 && (at+1 == len(line) || line[at+1] == ' ' || line[at+1] == '\t')
			if !nests {
				break
			}
		}
	}
	return 0
}

// position returns an empty value with the position of n.
func position(n ast.Node) (v document.Value) {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		v.Line, v.Column = tk.Position.Line, tk.Position.Column
	}
	return v
}

func value(n ast.Node) (document.Value, error) {
	v := position(n)
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		v.Kind, v.Text = document.String, n.Value
	case *ast.LiteralNode:
		v.Kind = document.String
		if n.Value != nil {
			v.Text = n.Value.Value
		}
	case *ast.BoolNode:
		v.Kind, v.Text = document.Bool, strconv.FormatBool(n.Value)
	case *ast.IntegerNode:
		v.Kind, v.Text = document.Number, fmt.Sprint(n.Value)
	case *ast.FloatNode:
		v.Kind, v.Text = document.Number, n.GetToken().Value
		if !json.Valid([]byte(v.Text)) {
			v.Text = strconv.FormatFloat(n.Value, 'g', -1, 64)
		}
	case *ast.InfinityNode, *ast.NanNode:
		v.Kind, v.Text = document.Number, n.GetToken().Value
	case *ast.SequenceNode:
		v.Kind = document.List
		for _, item := range n.Values {
			if item == nil {
				return v, v.Errorf("", "an empty entry")
			}
			i, err := value(item)
			if err != nil {
				return v, err
			}
			v.Items = append(v.Items, i)
		}
	case *ast.MappingNode:
		return mapping(v, n.Values)
	case *ast.MappingValueNode:
		return mapping(v, []*ast.MappingValueNode{n})
	default:
		v.Kind = document.Unsupported
	}
	return v, nil
}

func mapping(v document.Value, pairs []*ast.MappingValueNode) (document.Value, error) {
	v.Kind = document.Mapping
	for _, kv := range pairs {
		at := position(kv.Key)
		m := document.Member{Line: at.Line, Column: at.Column}
		switch k := kv.Key.(type) {
		case *ast.StringNode:
			m.Name = k.Value
		case *ast.IntegerNode:
			m.Name = k.GetToken().Value
		case *ast.MergeKeyNode:
			m.Name = "<<"
		default:
			return v, at.Errorf("", "a key must be a string or a whole number")
		}
		var err error
		if m.Value, err = value(kv.Value); err != nil {
			return v, err
		}
		v.Members = append(v.Members, m)
	}
	return v, nil
}
