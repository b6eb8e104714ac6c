// What dead children of this process have left running, which it adopts and ends.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tern {

// What a child leaves when it dies becomes a child of this process from now on, not of init.
// Returns the children that are there already, as a shell's are that has become this process.
std::vector<pid_t> adopt_orphans();

// Sends SIGKILL to every child of this process but those that are kept, and reaps those that are
// dead. False while one is left: what it had started becomes ours when it dies, so this is called
// again until it is true. Does not block. REQUIRES: no thread starts a child meanwhile.
bool end_orphans(std::span<const pid_t> kept);

// Reaps orphans that have ended by themselves.
void reap_orphans(pid_t kept);

}  // namespace tern
