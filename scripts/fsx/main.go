package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var o Options
	flag.IntVar(&o.Ops, "ops", 100_000, "how many operations")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "what decides which")
	flag.StringVar(&o.Other, "other", "", "a `file` to be made, to copy ranges to and from")
	flag.StringVar(&o.Name, "name", fmt.Sprint("fsx", os.Getpid()), "of the file to be made")
	flag.Parse()
	if o.Dirs = flag.Args(); len(o.Dirs) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	began := time.Now()
	if err := Run(o); err != nil {
		fmt.Fprintln(os.Stderr, "fsx:", err)
		os.Exit(1)
	}
	fmt.Printf("seed %d: %d operations through %d directories in %v\n", o.Seed, o.Ops, len(o.Dirs), time.Since(began).Round(time.Second))
}
