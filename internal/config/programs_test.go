package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/document"
)

// Every list of words in a configuration is a command or is known not to name a
// program. No single string has a key that suggests a program. A new key that names
// a program must be called "command", because Describe finds only that key.
func TestProgramsAreFound(t *testing.T) {
	harmless := []string{"clients[].events[]", "clients[].inherit[]", "attempts.retry.retry_on[]", "attempts.retry.decide.inherit[]",
		"anchor.inherit[]", "profiles[].prepare.token.from[]", "profiles[].paths[]", "profiles[].inherit[]", "renewal.profiles[]"}
	var commands []string
	var walk func(typ reflect.Type, path, key string)
	walk = func(typ reflect.Type, path, key string) {
		switch typ.Kind() {
		case reflect.Struct:
			for _, f := range document.Fields(typ) {
				walk(typ.FieldByIndex(f.Index).Type, document.Join(path, f.Key), f.Key)
			}
		case reflect.Slice:
			if typ.Elem().Kind() == reflect.String && key == programKey {
				commands = append(commands, path)
				return
			}
			walk(typ.Elem(), path+"[]", "")
		case reflect.String:
			if key == "" && !slices.Contains(harmless, path) {
				t.Errorf("%s is a list of words: call it %q if it is run, else list it here", path, programKey)
			}
			if slices.Contains([]string{programKey, "cmd", "program", "exec", "run", "script", "hook", "shell", "path"}, key) {
				t.Errorf("%s sounds like a program: a program is a list with the key %q", path, programKey)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", "")
	require.Equal(t, []string{"anchor.command", "clients[].command", "attempts.profiles[].command", "attempts.retry.decide.command",
		"profiles[].prepare.command", "profiles[].continue.command"}, commands)

	found, err := Describe("/p/.lifeloop.yaml", []byte(`
anchor: {command: [git, notes, append, -F, "-"]}
clients: [{id: a, command: [./a, "${env:TOKEN}"]}, {id: b, command: [b]}]
attempts: {profiles: [{name: main}, {name: other, command: [codex]}], retry: {decide: {command: [decide]}}}
profiles: [{name: handoff, prepare: {command: [note]}, continue: {command: [text, "{token_file}"]}}]
renewal: {profiles: [handoff]}`))
	require.NoError(t, err)
	require.Equal(t, []Program{{"anchor.command", []string{"git", "notes", "append", "-F", "-"}}, {"clients[0].command", []string{"./a", "${env:TOKEN}"}}, {"clients[1].command", []string{"b"}},
		{"attempts.profiles[1].command", []string{"codex"}}, {"attempts.retry.decide.command", []string{"decide"}},
		{"profiles[0].prepare.command", []string{"note"}}, {"profiles[0].continue.command", []string{"text", "{token_file}"}}}, found)
	_, err = Describe("/p/.lifeloop.yaml", []byte("clientz: []"))
	require.EqualError(t, err, `/p/.lifeloop.yaml:1:1: unknown key "clientz"; did you mean "clients"?`)
}
