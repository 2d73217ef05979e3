package simulate

// Members are the members of a plan, and of what is in it, by their path.
func Members() map[string][]string {
	return map[string][]string{
		"": words(planMembers), "profiles": words(profileMembers), "retry": words(retryMembers), "retry.backoff": words(backoffMembers), "timeouts_ms": words(timeoutMembers),
		"guardrails": words(guardrailMembers), "drift": words(driftMembers), "crash_loop": words(crashLoopMembers),
	}
}
