package profiles

import "lifeloop/telemetry"

// genericProfile is the profile of any program. Nothing that it writes is understood,
// but that it writes is a sign of life, if somebody says where.
func genericProfile() Profile {
	p := plain(Generic)
	p.Transcript = Activity("")
	return p
}

// Activity is the source of an activity file.
func Activity(path string) Source {
	return Source{Name: "file", Decoder: telemetry.File, Path: path, Form: Stamp}
}
