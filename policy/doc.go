// Package policy decides who may do what in warren's tree. Every door asks the
// same [Engine]: the mounts and the API through policy/view, the command line
// through explain and show.
//
// The rules are Cedar (cedar-go). default.cedar and schema.cedarschema are part
// of the program and say what docs call the view rules; [Facts] (agents, users,
// members, access modes, deny-list) come from the registry, partly as entities
// and partly compiled to Cedar (settings.cedar, printed by [Engine.Show]); an
// expert's files come last. Every set is parsed, validated strictly against the
// schema and run against its own examples before it takes effect; then it
// replaces the old one at once and the epoch moves.
//
// # Types
//
// A [Principal] is one agent behind one mount, resolved once. A [Resource] is
// a place in the tree as far as policies may tell places apart: zone, owner,
// whether the name deny-list holds. There is nothing else a policy can read,
// so a decision depends on (principal, mount's access, resource, action) and
// [Engine.Decide] remembers it under just that key.
//
// # Caveats
//
//   - Any evaluation error denies. Cedar itself skips a policy that fails, also
//     a forbid; Decide does not.
//   - What is hidden and what does not exist cost the same: both are evaluated,
//     an unknown owner with a stand-in for it, and neither is remembered. Whoever
//     goes through all there is asks [Engine.DecideListed].
//   - The absence of a permit denies; a forbid wins over every permit.
//   - Names are compared in lower case; a policy never sees a path.
//   - A Principal decides by the rules of its own epoch, for ever: what it is
//     asked about was told by it as well. Who holds one while rules may change sees
//     to it that a change waits: a view does, see its Publish.
//
// # Locks
//
// The engine publishes immutable snapshots through one atomic pointer; readers
// take no lock. Swap holds a mutex of its own against other Swaps, under which
// nothing else is taken.
package policy
