package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// asksMain, the program `asks NUMBER`, sends the requests of a turn with a tool to the model
// server of a probe, as Claude Code does. The prompt contains demoNote NUMBER times.
func asksMain() {
	ask := func(texts ...string) string {
		messages := []map[string]string{}
		for _, text := range texts {
			messages = append(messages, map[string]string{"role": "user", "content": text})
		}
		body, err := json.Marshal(map[string]any{"model": "m", "tools": []map[string]string{{"name": "Bash"}}, "messages": messages})
		if err != nil {
			panic(err)
		}
		resp, err := http.Post(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", "application/json", bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		var answer struct {
			Content []struct {
				Input struct{ Command string }
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			panic(err)
		}
		for _, c := range answer.Content {
			if c.Input.Command != "" {
				return c.Input.Command
			}
		}
		return ""
	}
	var notes int
	if _, err := fmt.Sscan(os.Args[1], &notes); err != nil {
		panic(err)
	}
	first := "do it (p1) " + strings.Repeat(demoNote, notes)
	command := ask(first)
	ask(first, "the tool "+command+" printed lifeloop-probe")
}
