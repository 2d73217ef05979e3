package kernel_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// This file is the judge's law "no payload outside its frame" (DECISIONS L19). The
// judge counts frames by the facts alone.

type frameAccount struct {
	owners  map[string]owner                  // call → what its payloads belong to
	prompts int                               // number of the harness's frames so far
	ordinal map[string]int                    // frame of the harness → its number
	placed  map[string]bool                   // call#index of the payloads that are in the answer of a hook
	about   map[string]*lifeloop.FrameContext // event id → its frame
}

// An owner is the event that a call is about.
type owner struct {
	event   lifeloop.Event
	frame   string
	scope   int
	prompts int
	failed  bool // the answer failed
	repeats bool // the answer repeats the delivery of an earlier one
}

// next reports whether a payload of the answer may be placed with the next prompt.
func (o owner) next() bool { return o.event == lifeloop.FrameEnding || o.event == lifeloop.FrameEnded }

// owns notes what the payloads of an event's calls belong to.
func (j *judge) owns(f kernel.Observed) {
	o := owner{event: f.Record.Event, scope: f.Scope}
	if f.Record.FrameContext != nil {
		o.frame = f.Record.FrameContext.FrameID
	}
	if f.Record.Event == lifeloop.FrameOpening && !f.ByClient() {
		j.prompts++
		j.ordinal[o.frame] = j.prompts
	}
	o.prompts = j.prompts
	j.about[f.Record.EventID] = f.Record.FrameContext
	for _, c := range f.Calls {
		j.owners[c.Call] = o
	}
}

func (j *judge) answered(f kernel.Answered) {
	o := j.owners[f.Call]
	o.failed = f.Status == lifeloop.Failed
	o.repeats = f.Replays != ""
	j.owners[f.Call] = o
	if o.repeats { // the payloads were checked for the earlier call
		return
	}
	for i, p := range f.Payloads {
		j.payloads[fmt.Sprint(f.Call, "#", i)] = 0
		if p.Key != nil {
			j.keyed[fmt.Sprint(f.Call, "#", i)] = j.made[f.Call].to + " " + *p.Key
		}
	}
}

// foreign reports whether an id differs from the id of the open harness session. The
// result is false if one of the two ids is unknown.
func (j *judge) foreign(session string) bool { return session != "" && j.id != "" && session != j.id }

// opened returns the last frame that the harness opened in one output of the kernel; "" if there is none.
func opened(out kernel.Output) (frame string) {
	for _, f := range out.Facts {
		if o, ok := f.(kernel.Observed); ok && o.Record.Event == lifeloop.FrameOpening && !o.ByClient() {
			frame = o.Record.FrameContext.FrameID
		}
	}
	return frame
}

// placing checks that a hook takes only payloads that belong to its frame or to
// its harness session.
func (j *judge) placing(f kernel.Placing) {
	a := j.asked[f.Hook]
	require.False(j.t, a.foreign, "hook %s is of another session", f.Hook)
	for _, item := range f.Items {
		o := j.owners[item.Call]
		what := fmt.Sprintf("payload %d of %s, which answers %s of frame %q", item.Index, item.Call, o.event, o.frame)
		require.False(j.t, o.failed, "%s is placed, and the answer is failed", what)
		require.False(j.t, o.repeats, "%s is placed again", what)
		require.Equal(j.t, j.scope, o.scope, "%s is placed in another harness session", what)
		j.placed[fmt.Sprint(item.Call, "#", item.Index)] = true
		if o.frame == "" {
			continue
		}
		switch f.Slot {
		case "tool_result":
			require.Contains(j.t, j.open, o.frame, "%s is placed after it", what)
		case "pre_frame_trailing":
			prompt := a.opened
			require.Equal(j.t, prompt, f.Frame)
			following := o.next() && item.Placement == lifeloop.PrePromptFrame && j.ordinal[prompt] == o.prompts+1
			require.True(j.t, prompt == o.frame || following, "%s is placed before the prompt of %s", what, prompt)
			if following {
				j.reach["placed before the next prompt"]++
			}
		default:
			j.t.Errorf("%s is placed at the start of a session", what)
		}
	}
}

// outlived checks that no payload still waits after its frame or its harness session has
// ended. Only a payload from the end of a frame may wait for the next prompt.
func (j *judge) outlived() {
	for key, settled := range j.payloads {
		call, _, _ := strings.Cut(key, "#")
		o := j.owners[call]
		if settled > 0 || j.placed[key] || j.over {
			continue
		}
		require.NotContains(j.t, j.sessions[o.scope], lifeloop.SessionEnding, "payload %s outlives its harness session", key)
		if o.frame != "" && !slices.Contains(j.open, o.frame) {
			require.True(j.t, o.next() && j.prompts <= o.prompts+1, "payload %s outlives frame %s", key, o.frame)
		}
	}
}
