// Package escapetest tries to get out of views: processes that an agent could
// be, each in its own kind of confinement, do all that testdata/attempts.py knows,
// and none of it may work.
//
// The confinements are `warren run`, containers of bubblewrap and runc with a host mount
// bound in, rootful and rootless, containers that mount from inside, rootful and
// rootless, and no container but a uid of one's own. Each process has
// the attacker's token and nothing else that is secret; it is told where everything
// is. A test that could not fail says nothing: so the same attempts run once more
// where they are allowed, as root on the host with the victim's token, and there each
// must work.
//
// It needs root, /dev/fuse, bubblewrap, unshare and python3; runc's container is left
// out where there is no runc.
package escapetest
