// Package attack is what an agent may try against the limits of its view, through
// real mounts and agent.sock, while another looks after what it must not reach.
//
//   - Revocation ([TestRevocation]): a soul reads and writes in every way there
//     is, with open handles, maps and a working directory inside, and its right
//     ends in every way that one can. How long it had what, counted from the
//     beginning of the command or the time of expiry, is printed.
//   - Names and links ([TestAttacks]): what is hidden or denied is not reached by
//     another spelling, a link, a rename, or a control file.
//   - Time ([TestTimes]): a hidden path and one that does not exist cannot be
//     told apart by how long the answer takes.
//
// The rounds are few by default; make attack ROUNDS=100 does more.
package attack
