package kernel

import "encoding/json"

// Hard is the hard state in the form in which it survives: as JSON.
func Hard(k *Kernel) []byte {
	b, err := json.Marshal(k.hard)
	if err != nil {
		panic(err)
	}
	return b
}

// Apply folds one fact, as Replay folds all of them.
func Apply(k *Kernel, f Fact) { k.apply(f) }

// Kinds is the zero value of every fact there is.
func Kinds() []Fact {
	var all []Fact
	for _, k := range kinds {
		all = append(all, k.fact)
	}
	return all
}
