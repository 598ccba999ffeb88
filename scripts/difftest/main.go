package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var o Options
	flag.IntVar(&o.Ops, "ops", 100_000, "how many calls")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "what decides which")
	flag.BoolVar(&o.User, "user", false, "half of the calls are another user's")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	o.Plain, o.Dirs = flag.Arg(0), flag.Args()[1:]
	began := time.Now()
	if err := Run(o); err != nil {
		fmt.Fprintln(os.Stderr, "difftest:", err)
		os.Exit(1)
	}
	fmt.Printf("seed %d: %d calls in %v\n", o.Seed, o.Ops, time.Since(began).Round(time.Second))
}
