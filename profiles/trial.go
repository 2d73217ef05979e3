package profiles

import (
	"path/filepath"
)

// A Trial is a short session of a harness with a model server on loopback. It has a
// home of its own, and needs no account with a provider of models.
type Trial struct {
	Args  []string // the arguments after the program
	Env   []string
	Files []File // Path is relative to the home
	// Fills is a number of input tokens that makes the harness compact its context
	// before the next request; 0 if the harness does not compact during a trial.
	Fills int64
}

// trialPrompt is the prompt of a trial. The scripted model server recognizes the prompt
// in a request by the mark p1.
const trialPrompt = "Run-the-command-(p1)"

// trialClaude returns a trial in print mode.
func trialClaude(model, dir string) Trial {
	return Trial{
		Args: []string{"--model", "claude-sonnet-4-5", "--allowedTools", "Bash", "-p", trialPrompt},
		Env: []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_AUTH_TOKEN=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=1", "CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000"},
		Files: []File{{".claude.json", encode(map[string]any{"hasCompletedOnboarding": true, "userID": "0", "officialMarketplaceAutoInstallAttempted": true,
			"officialMarketplaceAutoInstalled": true, "projects": map[string]any{dir: map[string]bool{"hasTrustDialogAccepted": true}}})}},
		Fills: 70_000,
	}
}

// trialCodex returns a trial of `codex exec`, with all settings on the command line.
func trialCodex(model, dir string) Trial {
	text := func(s string) string { return string(encode(s)) }
	args := []string{"exec"}
	for _, setting := range []string{
		`model="mock-model"`, `model_provider="mock"`, `model_context_window=100000`,
		`model_providers.mock={name="mock",base_url=` + text(model+"/v1") + `,env_key="PROBE_KEY",wire_api="responses",request_max_retries=0,stream_max_retries=0}`,
		`projects={` + text(dir) + `={trust_level="trusted"}}`,
		`check_for_update_on_startup=false`, `analytics.enabled=false`, `approval_policy="never"`, `sandbox_mode="danger-full-access"`,
	} {
		args = append(args, "-c", setting)
	}
	return Trial{Args: append(args, "--skip-git-repo-check", trialPrompt), Env: []string{"PROBE_KEY=none"}, Fills: 92_000}
}

// trialGemini returns a trial in print mode.
func trialGemini(model, _ string) Trial {
	return Trial{
		Args: []string{"--approval-mode", "yolo", "-p", trialPrompt},
		Env:  []string{"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true"},
		Files: []File{{filepath.Join(".gemini", "settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}},"model":{"name":"gemini-2.5-pro"},` +
			`"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"privacy":{"usageStatisticsEnabled":false}}`)}},
	}
}

// trialOpencode returns a trial of `opencode run`, with all settings of OpenCode's
// configuration in one environment variable.
func trialOpencode(model, _ string) Trial {
	config := map[string]any{"model": "mock/m1", "small_model": "mock/m1", "provider": map[string]any{"mock": map[string]any{
		"npm": "@ai-sdk/openai-compatible", "options": map[string]string{"baseURL": model + "/v1", "apiKey": "none"},
		"models": map[string]any{"m1": map[string]any{"limit": map[string]int{"context": 200_000, "output": 8000}}}}}}
	return Trial{
		Args: []string{"run", trialPrompt},
		Env:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_CONFIG_CONTENT=" + string(encode(config))},
	}
}
