package scan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestObject(t *testing.T) {
	var raw []byte
	var name, word, path, inner string
	var count int64
	var yes, called, has, hasNot bool
	var at, milli, seconds time.Time
	var list []string
	b := []byte(` {"x":{"name":"wrong"},"raw":[1, 2],"name":"a name","word":"two words","path":"/a b","count":7,"yes":true,
		"at":"2026-11-21T08:00:00Z","milli":1500,"seconds":2.5,"in":{"y":1,"name":"inner"},"each":["a","b"],"func":null,"has":0,"name":"the last"} `)
	ok := Object(b, Func("func", func(val []byte) { called = IsNull(val) }), Raw("raw", &raw), Name("name", &name), Word("word", &word), Path("path", &path),
		Count("count", &count), True("yes", &yes), Has("has", &has), Has("none", &hasNot), Time("at", &at), Milli("milli", &milli), Seconds("seconds", &seconds),
		In("in", Name("name", &inner)), Func("each", func(val []byte) {
			Elements(val, func(val []byte) bool { list = append(list, NameOf(val)); return true })
		}))
	require.True(t, ok)
	require.True(t, has)
	require.False(t, hasNot)
	require.Equal(t, []any{"[1, 2]", "the last", "", "/a b", int64(7), true, true, "inner"}, []any{string(raw), name, word, path, count, yes, called, inner})
	require.Equal(t, []string{"a", "b"}, list)
	require.Equal(t, []time.Time{time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), time.UnixMilli(1500).UTC(), time.UnixMilli(2500).UTC()}, []time.Time{at, milli, seconds})

	name = "kept"
	require.False(t, Object([]byte(`["name"]`), Name("name", &name)))
	require.Equal(t, "kept", name)
	require.False(t, Object([]byte(`{"name":"read","torn`), Name("name", &name)))
	require.Equal(t, "read", name)
	require.True(t, Object([]byte(`{"name":7}`), Name("name", &name)))
	require.Empty(t, name, "a value of another type is none")
}

// Reading allocates nothing but the strings that it returns.
func TestObjectDoesNotAllocate(t *testing.T) {
	b := []byte(`{"a":1,"raw":"x","in":{"b":2,"count":3},"yes":true,"each":[1,2]}`)
	allocated := testing.AllocsPerRun(100, func() {
		var raw []byte
		var count, sum int64
		var yes bool
		Object(b, Raw("raw", &raw), True("yes", &yes), In("in", Count("count", &count)), Func("each", func(val []byte) {
			Elements(val, func(val []byte) bool { sum += CountOf(val); return true })
		}))
		if string(raw) != `"x"` || count != 3 || !yes || sum != 3 {
			panic("wrong values")
		}
	})
	require.Zero(t, allocated)
}
