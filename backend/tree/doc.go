// Package tree is POSIX over an ordered key-value store: volumes, inodes,
// names, extents. It knows nothing of agents' rights, paths of a view or the
// kernel; policy/view puts those in front.
package tree
