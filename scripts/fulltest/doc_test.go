// Package fulltest fills disks under a running daemon, through real mounts. The
// store is on an ext4 of its own in an image, so it needs root.
//
// Agents fill the store until it refuses them, delete everything, and fill it
// again; the daemon is killed while it is full. Others fill the disk to the last
// block beside the daemon, and while it is down. All that was acknowledged must
// be readable, deletions must work, the daemon must live, open, and say what is
// wrong, the space must come back, and fsck must find nothing.
package fulltest
