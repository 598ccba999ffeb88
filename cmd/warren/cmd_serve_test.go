package main

import (
	"testing"
	"time"

	"github.com/warrenfs/warren/fusefs"
)

// TestFeedFlags: how much of the feed is kept.
func TestFeedFlags(t *testing.T) {
	got, err := (&serveOptions{FeedAge: "36h", FeedSize: "150M"}).feed()
	if err != nil || got.MaxAge != 36*time.Hour || got.MaxEvents != 1<<20 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = (&serveOptions{FeedAge: "never"}).feed(); err != nil || got.MaxAge < 200*365*24*time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
	for _, o := range []serveOptions{{FeedAge: "1s"}, {FeedAge: "soon"}, {FeedSize: "1k"}, {FeedSize: "much"}} {
		if _, err := o.feed(); err == nil {
			t.Errorf("%+v is taken", o)
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
