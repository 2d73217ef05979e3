package anchoring

import (
	"context"
	"errors"
	"os"
	"time"

	"lifeloop/evidence"
	"lifeloop/internal/store"
)

// A progress is what one wrapper knows about the published checkpoints of its session.
// The methods done and miss return a changed copy, and have no other effect.
type progress struct {
	store.Published
	earlier evidence.Anchor // the newest checkpoint that an earlier wrapper has published
	missed  int             // how many checkpoints this wrapper could not publish
}

// begin returns the progress at the start of a wrapper. stored is the state that the
// previous wrapper has stored.
func begin(stored store.Published) progress {
	if stored.Failed > 0 && stored.From == 0 {
		stored.From = 1 // an earlier version of this program, which had no From, stored the state
	}
	return progress{Published: stored, earlier: stored.Last}
}

// done returns the progress after a checkpoint was published.
func (p progress) done(next evidence.Anchor) progress {
	if next.Index > p.Last.Index {
		p.Last = next
	}
	switch {
	case p.missed > 0:
	case next.Index >= p.earlier.Index: // every checkpoint up to the newest published one is published now
		p.From, p.Failed, p.Why = 0, 0, ""
	case next.Index == p.From:
		p.From++
	}
	return p
}

// miss returns the progress after a checkpoint could not be published. Index 0 means that
// no checkpoint could be read.
func (p progress) miss(index int, why string) progress {
	p.missed++
	p.Why = why
	if index >= p.earlier.Index {
		p.Failed = p.missed
	} else {
		// Failed may also count checkpoints that an earlier wrapper could not publish, and
		// that are tried again only later. Failed must therefore not decrease here.
		p.Failed = max(p.Failed, p.missed)
	}
	if p.From == 0 || index < p.From {
		p.From = max(index, 1)
	}
	return p
}

// A Follower publishes the checkpoints of a session that this process runs, while the
// session runs. A nil Follower publishes nothing.
type Follower struct {
	state progress // until done is closed, only the goroutine of Follow uses state
	stop  context.CancelFunc
	done  chan struct{}
}

// Follow starts to publish the checkpoints of a session: the oldest one that earlier
// wrappers did not publish, and all later ones. If an earlier wrapper has published some
// of the later ones, the command that p.Push runs gets them again. The progress is stored
// in the session's folder. Follow calls p.Open and returns the error of Open. If there is
// no error, the caller must call Wait and must not use p.
func Follow(folder store.Folder, p *Publisher) (*Follower, error) {
	f := &Follower{state: begin(folder.Published()), done: make(chan struct{})}
	p.last, p.from = f.state.Last, f.state.From
	if err := p.Open(); err != nil {
		return nil, err
	}
	report := p.Report
	p.Report = func(index int, err error) {
		f.state = f.state.miss(index, err.Error())
		folder.SavePublished(f.state.Published)
		report(index, err)
	}
	p.saved = func(next evidence.Anchor) {
		f.state = f.state.done(next)
		folder.SavePublished(f.state.Published)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.done)
		last, err := p.each(ctx, folder.FollowRecords(ctx, 1))
		if err == nil && ctx.Err() != nil && f.state.Failed == 0 {
			err = errors.New("stopped before the last checkpoint was published")
		}
		if err != nil {
			p.fail(last.Index, err)
		}
	}()
	return f, nil
}

// Wait waits until all checkpoints of the session are published, until a signal arrives, or
// until [PushTime] has passed. If the session did not end, Wait stops publishing at once.
// It returns the state that is stored in the session's folder.
func (f *Follower) Wait(ended bool, signals <-chan os.Signal) store.Published {
	if f == nil {
		return store.Published{}
	}
	if !ended {
		f.stop()
	}
	select {
	case <-f.done:
	case <-signals:
	case <-time.After(PushTime):
	}
	f.stop()
	<-f.done
	return f.state.Published
}
