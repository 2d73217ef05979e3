package config

import (
	"fmt"
	"reflect"

	"lifeloop/internal/document"
	"lifeloop/internal/document/yaml"
)

// A Program is a command that a configuration names.
type Program struct {
	Path    string   `json:"key"` // the path of the value: clients[0].command
	Command []string `json:"command"`
}

// programKey is the only key whose value is run as a program.
const programKey = "command"

// Describe reads the text of a project's file and lists the programs that it
// names, as they are written. The text must be a valid file, but the variables
// in ${env:VAR} need not be set.
func Describe(path string, data []byte) ([]Program, error) {
	cfg := Default()
	root, err := yaml.Parse(data)
	if err == nil && root.Line > 0 {
		err = document.Decode(root, &cfg, "", nil)
	}
	if err != nil {
		return nil, located(err, path)
	}
	return programs(reflect.ValueOf(cfg), ""), nil
}

// programs finds every value below v whose key is [programKey].
func programs(v reflect.Value, path string) (found []Program) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, programs(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.Struct:
		for _, f := range document.Fields(v.Type()) {
			at, member := document.Join(path, f.Key), v.FieldByIndex(f.Index)
			if command, ok := member.Interface().([]string); ok && f.Key == programKey {
				if len(command) > 0 {
					found = append(found, Program{at, command})
				}
				continue
			}
			found = append(found, programs(member, at)...)
		}
	}
	return found
}
