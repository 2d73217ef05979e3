package watchers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// limited is the environment variable with the path of the file to follow, in a
// process that a test starts in a user namespace of its own.
const limited = "LIFELOOP_TEST_LIMITED"

// tryLimited prints the result of Try, first while no inotify instance is
// allowed, then while one is allowed but no watch. At the end it resets the limit
// of instances to 0.
func tryLimited(allow func(instances string) error) error {
	try := func() {
		limit, err := Try("/")
		fmt.Printf("try: %s: %v\n", limit, err)
	}
	try()
	const watches = "/proc/sys/user/max_inotify_watches"
	had, err := os.ReadFile(watches)
	if err != nil {
		return err
	}
	if err := errors.Join(allow("1"), os.WriteFile(watches, []byte("0"), 0)); err != nil {
		return err
	}
	try()
	return errors.Join(os.WriteFile(watches, had, 0), allow("0"))
}

// followLimited prints the lines and troubles of a file, first without inotify,
// then with it.
func followLimited(path string) error {
	allow := func(instances string) error {
		return os.WriteFile("/proc/sys/user/max_inotify_instances", []byte(instances), 0)
	}
	if err := allow("0"); err != nil {
		return err
	}
	if err := tryLimited(allow); err != nil {
		return err
	}
	reports := make(chan string, 16)
	w, err := New(Config{
		PollEvery: time.Millisecond,
		Deliver:   func(l Line) { reports <- string(l.Text) },
		Trouble: func(x Trouble) {
			what := string(x.What)
			if x.Err != nil {
				what += ": " + x.Err.Error()
			}
			reports <- what
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	w.Add(Spec{Source: "s", Path: path})
	go func() { done <- w.Run(ctx) }()
	next := func() error {
		select {
		case what := <-reports:
			fmt.Println(what)
			return nil
		case <-time.After(patience):
			return fmt.Errorf("no more reports")
		}
	}
	write := func(text string) func() error {
		return func() error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString(text)
			return err
		}
	}
	for _, step := range []func() error{
		next,
		write("one\n"), next,
		func() error { return allow("8") }, next,
		write("two\n"), next,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	cancel()
	return <-done
}
