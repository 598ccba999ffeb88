// Package lifetest mounts and unmounts in every way that a user has, several at
// once, while the daemon is stopped, killed and started again.
//
// Each worker has two directories. It mounts there by `warren mount`, works, and
// unmounts by `warren umount`, with and without --force, by umount(2) in its
// three forms, or by fusermount3, with files in use or not; it runs commands by `warren run`,
// and makes and removes agents. After each step what should be mounted is and answers,
// what should not is not, and the directory beneath is bare.
//
// First the daemon stays: at the end it has no more goroutines and descriptors than
// at the beginning. Then it is ended again and again, by SIGTERM and SIGKILL, while nobody
// works and in the midst of it; whatever a worker was just told holds: what was mounted is
// mounted again, what was unmounted is not. fsck is clean each time.
//
// make lives FOR=10m does that for so long; by default it is some seconds. The same
// without a daemon, faster, is TestLifeOfMounts in fusefs.
package lifetest
