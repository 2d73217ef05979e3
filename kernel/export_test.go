package kernel

import (
	"encoding/json"
	"reflect"

	"lifeloop/kernel/input"
)

// Hard is the hard state of a kernel as JSON.
func Hard(k *Kernel) []byte {
	b, err := json.Marshal([]any{k.session.hard, k.scopes.hard, k.turns.hard, k.pressure.hard, k.books.hard, k.health.hard,
		k.router.hard, k.attempts.hard, k.recovery.hard, k.renewals.hard, k.guards.hard, k.ending.hard})
	if err != nil {
		panic(err)
	}
	return b
}

// Apply changes the state by one fact, as Replay does for each fact.
func Apply(k *Kernel, f Fact) { f.apply(k) }

// Size counts the map entries, slice elements and bytes of strings of the whole
// state, hard and soft.
func Size(k *Kernel) (n int) {
	seen := map[uintptr]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] {
				seen[v.Pointer()] = true
				walk(v.Elem())
			}
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Map:
			n += v.Len()
			for entries := v.MapRange(); entries.Next(); {
				walk(entries.Key())
				walk(entries.Value())
			}
		case reflect.Slice:
			n += v.Len()
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.String:
			n += v.Len()
		}
	}
	for _, m := range k.machines() {
		walk(reflect.ValueOf(m))
	}
	return n
}

// Judges reports whether the kernel has a case for a trouble.
func Judges(what input.Trouble) bool {
	_, _, known := consequence(input.SourceTrouble{Source: "s", What: what})
	return known
}

// Registry returns the zero value of every fact.
func Registry() []Fact { return registry }
