package main

import (
	"testing"
	"time"

	"github.com/warrenfs/warren/fusefs"
)

// TestFeedFlags: how much of the feed is kept.
func TestFeedFlags(t *testing.T) {
	got, err := keptFeed("36h", "150M")
	if err != nil || got.MaxAge != 36*time.Hour || got.MaxEvents != 1<<20 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = keptFeed("never", ""); err != nil || got.MaxAge < 200*365*24*time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
	for _, o := range [][2]string{{"1s", ""}, {"soon", ""}, {"", "1k"}, {"", "much"}} {
		if _, err := keptFeed(o[0], o[1]); err == nil {
			t.Errorf("%q is taken", o)
		}
	}
}

func TestServeFlags(t *testing.T) {
	for _, name := range fusefs.Transports() {
		for _, stop := range []string{"unmount", "keep"} {
			if err := (&serveOptions{Transport: name, Profile: "127.0.0.1:0", OnStop: stop}).check(); err != nil {
				t.Errorf("%s, %s: %v", name, stop, err)
			}
		}
	}
	for _, o := range []serveOptions{
		{OnStop: "unmount"}, {Transport: "pigeon", OnStop: "unmount"}, {Transport: "own"}, {Transport: "own", OnStop: "drop"},
		{Transport: "own", OnStop: "unmount", Profile: "[::]:1"}, {Transport: "own", OnStop: "unmount", Profile: "localhost"},
	} {
		if err := o.check(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
