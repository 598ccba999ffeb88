// Command nullfs is a filesystem that keeps only Go maps in memory: what FUSE itself
// costs on a machine, whatever a store would do behind it. scripts/bench mounts
// it as the floor that no filesystem over the same kernel interface gets below
// without asking less of the kernel.
//
// It takes the options that are safe for one mount: time-outs without end,
// KEEP_CACHE, CACHE_DIR, NOFLUSH but for O_RDWR, DIRECT_IO on write-only
// creates, KILLPRIV_V2, default_permissions. It has no locks, no devices, no
// limits and no rename flags, checks nothing that default_permissions does not,
// and forgets everything when it ends: it is good for a benchmark only.
//
// One mutex guards everything.
package main
