// Package tree is POSIX over an ordered key-value store: volumes, inodes,
// names, extents. It knows nothing of agents' rights, of views or of the
// kernel; policy/view puts those in front.
//
// A [Tree] holds the volumes of one store. [Tree.With] locks one volume and
// hands out a [Txn], whose methods are the operations of a filesystem. Each
// mutating method is one Update of the store: it happens whole or not at all,
// it is in the log before the method returns, and it is never larger than the
// seam allows. What cannot be bounded is done later by the reclaimer, under
// cover of one record: an unlinked inode is an orphan until its extents are
// gone; a truncated or punched range is void by a barrier until they are.
//
// # What is cached
//
// Above the store the tree keeps decoded inodes and directories, bounded by
// Options.CacheInodes. All of it may be dropped at any time. A directory that
// was made or listed since it was loaded is cached whole, so that a name that
// is not there costs no look into the store. Of a file that is much
// asked for it keeps where its extents end, so that a range of few extents costs
// as many lookups: a scan walks what was deleted and not merged away yet, thousands
// of keys where a file is written in small pieces.
//
// # Content
//
// A file is a set of extents that do not overlap, keyed by the offset of
// their end, so that the extent which covers an offset is the first at or
// after it. Bytes up to [InlineMax] stand in the extent itself; longer ones go
// to backend.Content and are named by a Ref. A Ref that more than one extent
// names has its count under a key of its own (no key: one). Writes shorter
// than [BlockSize] take in what their 4 KiB block already holds, so that a
// file that is written by lines does not fall into lines. Ranges no extent
// covers read as zeros. Where Content takes as much, what was written in small
// steps one after the other is made one extent in the background.
//
// A content is given back when nothing names any of it. What a change leaves of
// one is written anew in the background, where that is two thirds or less, and
// where nothing changes for a while (Options.RestAfter) seven eighths.
//
// # Locks
//
// Order: volume, then the store's own. No two volumes are ever locked at once
// but in CreateVolume and RemoveVolume, parent first. The volumes table has a
// lock of its own under which nothing else is taken. A Txn is valid until the
// function it was given to returns, in that goroutine. Options.InUse is called
// with a volume's lock held.
package tree
