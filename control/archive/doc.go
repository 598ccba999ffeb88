// Package archive is how trees travel between warren and the rest of the world:
// a tar stream in the PAX format, read and written without trust.
//
//   - [Entry] is one node. [Reader] reads them from any tar stream, [Writer]
//     writes them.
//   - [Walk] makes the stream of a directory of this machine; [Extract] makes
//     the directory of a stream.
//
// # What is refused
//
// A Reader refuses a stream as soon as it meets what no honest archive has, with
// an [Error]: names that are absolute, have a .. or a component of more than
// 255 bytes; hard links to what is not an earlier file of the stream; entries
// below what an earlier entry made a symlink or a file; two entries of one name,
// unless both are directories; devices and types that it does not know; sizes
// and numbers over [Limits]; a stream that ends without its end mark. Who reads
// to io.EOF before changing anything refuses a hostile archive whole.
//
// Symlinks are kept as they are, whatever they lead to: nothing here follows one.
//
// # Sparse files
//
// A Writer writes holes as GNU's PAX format 1.0 does, which tar(1) and Go read.
// A Reader gives holes as zeros; who stores them leaves out blocks of zeros
// ([Holes]).
//
// # Owners
//
// The stream starts with a comment that names the user and the group which are
// "the owner": "warren owner=UID:GID". Without one they are those of the first
// entry.
//
// A Reader's memory grows by about 50 bytes for each entry and each directory that
// one stands in, up to Limits.Entries.
// Nothing here locks; a Reader or Writer is for one goroutine.
package archive
