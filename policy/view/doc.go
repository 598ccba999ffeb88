// Package view is the one door to the tree: a [View] is the tree as one agent
// may see it, a [Space] all that stands behind the doors of one daemon. Mounts
// (fusefs) and the API (control/server) reach nothing but through a View;
// the registry (workspace) makes volumes and publishes rules through the Space.
//
// # One operation
//
// Each method goes the same way: the request must be well-formed; policy
// decides, before anything is looked up, so that what is hidden and what is
// not there are answered alike (backend.NotFound); then the tree does it. The
// last two happen under the lock of the volume, so no rename can slip between
// the decision and the deed. Under the same lock the view's Observer is told
// what is about to be answered, and the Notifier collects what other mounts
// must be told of the changes. It is told after the lock is dropped and before
// the method returns.
//
// # Errors
//
// NotFound: not there, or not in this view. Denied: seen, but not allowed.
// ReadOnly: the mount is read-only. Invalid, NameTooLong: the request itself.
// All others are the tree's. An error's Path is a tree path that the view may
// see. Refusals are kept for [Space.Denials].
//
// # Places
//
// What policy may tell apart of a node (policy.Resource) follows from its
// volume's label and, in a home, from the first component of its path; a file
// with several names there is judged by the strictest. A name is judged by the
// deny-list where it stands; a mark that sticks to the inode remembers one
// that was taken away. Both are kept with the cached inode as one word
// (tree's Memo), valid for one policy epoch and as long as no directory moves.
//
// # Locks
//
// Space.change (one Publish, EnsureVolume or RemoveVolume at a time), then a
// volume's lock, then leaves: Space.mu, the denials', the Observer's own. No
// method of a View takes two volumes' locks at once. A Publish takes each
// volume's lock once after the new rules are in force: when it returns, no
// operation under the old ones is under way.
package view
