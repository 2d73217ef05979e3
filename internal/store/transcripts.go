package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lifeloop/internal/durable"
	"lifeloop/kernel"
)

// transcriptsDir is the folder of the copies.
const transcriptsDir = "transcripts"

// maxTranscript is the size in bytes of the largest transcript that is copied.
// The transcript of a session of several days has some 100 MB.
const maxTranscript = 1 << 30

// CopyTranscript copies a transcript of the harness into the session's folder. The
// recorded path has its links resolved, because a path in an overlay of the home exists
// only during the launch. The copy is named after the original, with a prefix of digits
// computed from the path. A later copy of the same path replaces it.
func (f Folder) CopyTranscript(path string) kernel.TranscriptCopied {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	kept, err := f.copyTranscript(path)
	if err != nil {
		return kernel.TranscriptCopied{Path: path, Why: err.Error()}
	}
	return kept
}

func (f Folder) copyTranscript(path string) (kernel.TranscriptCopied, error) {
	from, err := durable.OpenLinked(path)
	if err != nil {
		return kernel.TranscriptCopied{}, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return kernel.TranscriptCopied{}, err
	}
	if info.Size() > maxTranscript {
		return kernel.TranscriptCopied{}, fmt.Errorf("%s has more than %d bytes", path, maxTranscript)
	}
	if err := os.Mkdir(f.file(transcriptsDir), 0o700); err != nil && !os.IsExist(err) {
		return kernel.TranscriptCopied{}, err
	}
	of := sha256.Sum256([]byte(path))
	kept := kernel.TranscriptCopied{Path: path, File: filepath.Join(transcriptsDir, hex.EncodeToString(of[:4])+"-"+filepath.Base(path))}
	digest, size := sha256.New(), new(counter)
	// Copy up to the present end: the launch is over, so what is written from now on
	// belongs to a later launch or to another session.
	data := io.TeeReader(io.LimitReader(from, info.Size()), io.MultiWriter(digest, size))
	if err := durable.Copy(f.file(kept.File), data, 0o600); err != nil {
		return kernel.TranscriptCopied{}, err
	}
	kept.Digest, kept.Bytes = "sha256:"+hex.EncodeToString(digest.Sum(nil)), int64(*size)
	return kept, nil
}

// A counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
