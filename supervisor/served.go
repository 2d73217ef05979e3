package supervisor

import (
	"context"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
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
		s.files.reportTrouble(s.source, ofStreamTrouble(t.What), t.Err)
	})
	if err != nil && ctx.Err() == nil {
		s.files.reportTrouble(s.source, input.TroubleUnreadable, err)
	}
	s.unknown(s.files.post, true)
}
