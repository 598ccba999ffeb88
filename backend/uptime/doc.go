// Package uptime pairs the wall clock with the time that has really passed.
//
// Records and files carry times of the wall clock, which anyone with the right
// can set. A Clock compares it with CLOCK_BOOTTIME, which nobody sets, and
// remembers where the two came apart. Two questions then have safe answers:
//
//   - Is this old enough to be removed? Only if both clocks say so ([Clock.Before]).
//   - Is this right over? As soon as one of the clocks says so ([Clock.Over]).
//
// A daemon that restarts goes on with what it knew ([Clock.Save], [Resume]). Across
// a reboot the wall clock is believed for the time that the machine was off.
//
// The package imports nothing of warren's.
package uptime
