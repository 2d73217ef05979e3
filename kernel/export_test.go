package kernel

import "encoding/json"

// Hard is the hard state in the form in which it survives: as JSON.
func Hard(k *Kernel) []byte {
	b, err := json.Marshal([]any{k.session.hard, k.scopes.hard, k.turns.hard, k.pressure.hard, k.books.hard, k.health.hard,
		k.router.hard, k.attempts.hard, k.recovery.hard, k.ending.hard})
	if err != nil {
		panic(err)
	}
	return b
}

// Apply folds one fact, as Replay folds all of them.
func Apply(k *Kernel, f Fact) { f.apply(k) }

// Registry is the zero value of every fact.
func Registry() []Fact { return registry }
