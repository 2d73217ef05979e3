package simulate

// Members are the members of a plan, and of what is in it, by their path.
func Members() map[string][]string {
	return map[string][]string{
		"": planMembers, "profiles": profileMembers, "retry": retryMembers, "retry.backoff": backoffMembers, "timeouts_ms": timeoutMembers,
		"guardrails": guardrailMembers, "drift": driftMembers, "crash_loop": crashLoopMembers,
	}
}
