package profiles

import "lifeloop/telemetry"

// genericProfile is the profile of an unknown program, whose output cannot be decoded. If
// the user names a file that the program writes, a change of the file is a sign of life.
func genericProfile() Profile {
	return Profile{
		Adapter:    Generic,
		Transcript: Activity(""),
		Prepare:    func(argv []string, h Host) (Launch, error) { return start(argv, h, nil) },
	}
}

// Activity returns the source for a file whose content is not read: each change of the
// file only shows that the program is active.
func Activity(path string) Source {
	return Source{Name: "file", Decoder: telemetry.File, Path: path, Form: Stamp}
}
