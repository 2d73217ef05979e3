package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No way of printing a token shows its text, even if the token is a part of
// another value.
func TestTokenDoesNotPrintItself(t *testing.T) {
	type hidden struct {
		token Token
		list  []Token
	}
	type shown struct {
		Token Token
		Map   map[string]Token
	}
	token := NewToken(canary)
	// fmt prints the bytes of a string in these forms.
	forms := []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary)), strconv.Quote(canary)}
	for _, value := range []any{token, &token, []Token{token}, hidden{token, []Token{token}}, &hidden{token, nil},
		shown{token, map[string]Token{"a": token}}, deposit{Ticket: Ticket{Digest: token.Digest()}}} {
		var printed []string
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			printed = append(printed, fmt.Sprintf(verb, value))
		}
		text, err := json.Marshal(value)
		require.NoError(t, err)
		printed = append(printed, string(text), fmt.Errorf("take %v: %w", value, errors.ErrUnsupported).Error())
		for _, p := range printed {
			for _, form := range forms {
				require.False(t, strings.Contains(p, form), "%T prints itself", value)
			}
		}
	}
	require.Equal(t, "[token of 24 bytes]", token.String())
	text, err := json.Marshal(map[string]any{"token": token})
	require.NoError(t, err)
	require.Equal(t, `{"token":"[token of 24 bytes]"}`, string(text))
	require.Equal(t, canary, token.Reveal())
	require.Equal(t, "[token of 0 bytes]", Token{}.String())
}
