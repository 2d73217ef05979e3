package supervisor

import (
	"context"

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
	err := s.stream.Run(ctx, func(event []byte) { s.take(s.files.post, event, nil) }, func(t sse.Trouble) {
		what := watchers.TroubleKind(t.What)
		if t.What == sse.Gone {
			what = watchers.Deleted // the server no longer answers
		}
		s.files.reportTrouble(s.source, what, t.Err)
	})
	if err != nil && ctx.Err() == nil {
		s.files.reportTrouble(s.source, watchers.Unreadable, err)
	}
	s.unknown(s.files.post, true)
}
