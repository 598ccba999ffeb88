package main

import (
	"testing"

	"github.com/warrenfs/warren/fusefs"
)

func TestServeFlags(t *testing.T) {
	for _, name := range fusefs.Transports() {
		if err := (&serveOptions{Transport: name, Profile: "127.0.0.1:0"}).check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []serveOptions{{}, {Transport: "pigeon"}, {Transport: "own", Profile: "[::]:1"}, {Transport: "own", Profile: "localhost"}} {
		if err := o.check(); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
