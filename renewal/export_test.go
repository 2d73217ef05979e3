package renewal

// States lists every state in which a renewal can be.
func States() []State {
	return []State{Asked, Negotiated, Prepared, Resetting, Resumed, Delivered, Refused, RolledBack, Failed}
}
