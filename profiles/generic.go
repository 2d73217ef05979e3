package profiles

import "lifeloop/telemetry"

// genericProfile is the profile of an unknown program. Its output cannot be decoded. If
// the user names a file that it writes, a change of the file is a sign of life.
func genericProfile() Profile {
	p := plain(Generic)
	p.Transcript = Activity("")
	return p
}

// Activity is the source of an activity file.
func Activity(path string) Source {
	return Source{Name: "file", Decoder: telemetry.File, Path: path, Form: Stamp}
}
