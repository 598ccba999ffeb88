package main

import (
	"testing"

	"github.com/warrenfs/warren/fusefs"
)

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
