package supervisor

import (
	"context"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/watchers"
	"lifeloop/watchers/sse"
)

// A server is an event stream that the harness serves.
type server struct {
	*decoder
	files  *Files
	stream *sse.Stream
}

func (f *Files) addServer(s profiles.Source) error {
	cfg := sse.Config{URL: s.Path}
	if f.Getenv != nil && s.Password != "" {
		cfg.User, cfg.Password = s.User, f.Getenv(s.Password)
	}
	stream, err := sse.New(cfg)
	if err != nil {
		return err
	}
	f.servers = append(f.servers, &server{decoder: f.newDecoder(s), files: f, stream: stream})
	return nil
}

// follow reads the server's events until ctx ends.
func (s *server) follow(ctx context.Context) {
	err := s.stream.Run(ctx, s.take, func(t sse.Trouble) {
		what := string(t.What)
		if t.What == sse.Gone {
			what = string(watchers.Deleted) // the server no longer answers
		}
		s.files.reportTrouble(s.source, what, t.Err)
	})
	if err != nil && ctx.Err() == nil {
		s.files.reportTrouble(s.source, string(watchers.Unreadable), err)
	}
	if s.Decoder != nil && s.Missed() > s.reported {
		s.files.post(kernel.UnknownSeen{Source: s.source, Types: s.Unknown()})
	}
}

func (s *server) take(event []byte) {
	signals := s.read(event)
	if s.missed() {
		s.files.post(kernel.UnknownSeen{Source: s.source, Types: s.Unknown()})
	}
	if len(signals) > 0 {
		s.files.post(kernel.SignalsSeen{Signals: signals})
	}
}
