package config

import (
	"errors"
	"fmt"
	"strings"
)

// ParseClientFlag reads the value of --client, ID=CMDLINE, into a client for
// every event that `*` matches. CMDLINE is split into words as a shell splits
// it, and no shell is run: quotes and backslashes work as in sh, all other
// characters (`$`, `*`, `|`, `;`) are literal.
func ParseClientFlag(text string) (Client, error) {
	id, line, ok := strings.Cut(text, "=")
	if !ok {
		return Client{}, fmt.Errorf("expected ID=CMDLINE, found %q", text)
	}
	if err := checkID(id); err != nil {
		return Client{}, err
	}
	command, err := split(line)
	if err != nil {
		return Client{}, fmt.Errorf("client %s: %w", id, err)
	}
	var c Client
	c.SetDefaults()
	c.ID, c.Command = id, command
	return c, nil
}

// split splits a command line into words.
func split(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool // a word has begun; it may have no characters yet, as after ''
		quote  byte
	)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
			if i == len(line) {
				return nil, errors.New("the command line ends in a backslash")
			}
			// Between double quotes a backslash escapes only the characters
			// that it escapes in sh.
			if quote == '"' && !strings.ContainsRune("\"\\$`\n", rune(line[i])) {
				word.WriteByte('\\')
			}
			if line[i] == '\n' { // a backslash at the end of a line joins it to the next
				continue
			}
			inWord = true
			word.WriteByte(line[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the command line ends inside %c quotes", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("the command line names no program")
	}
	return words, nil
}

// expand replaces ${env:VAR} by the variable's value. It does not expand that
// value again.
func expand(word string, getenv func(string) string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(word, "${env:")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("${env:%s has no closing brace", rest)
		}
		value := getenv(name)
		if value == "" {
			return "", fmt.Errorf("${env:%s}: the variable %s is not set, or empty", name, name)
		}
		out.WriteString(value)
		word = after
	}
}
