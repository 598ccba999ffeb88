// Package worktest does real work in real mounts: what agents do all day (tar,
// git, npm, Python, Go, SQLite, rsync, ripgrep), with the views of an
// orchestrator, two souls and a shared agent mounted at once on one Badger store.
//
// Each workload runs in a plain directory and in a soul's workspace. What comes
// out must be the same: names, types, modes, link counts, sizes, times where
// they are kept, and all bytes; seen through the soul's mount and through
// Gaia's; and again after the daemon was killed and started anew. Then fsck
// must find nothing.
//
// npm fetches packages from its registry. With -short, and under the race
// detector, the inputs are smaller.
package worktest
