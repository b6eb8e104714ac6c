// Where the other machines of a run find this one.
#pragma once

#include <string>

#include "core/result.h"

namespace tern {

// "10.0.0.4:20317": an address of this machine, given in digits or by a name, and a port of it that
// nothing listens on, tried by binding. The ports are 20000 to 29999, below those that the kernel
// gives to connections that go out. It is not kept: whoever comes first has it. `invalid` for an
// address that stands for all networks, `failed_precondition` for one that is none of this
// machine's.
Result<std::string> choose_peer_address(const std::string& host);

// The address at which sshd was reached, of $SSH_CONNECTION ("CLIENT PORT SERVER PORT").
Result<std::string> server_of_ssh_connection(const std::string& variable);

}  // namespace tern
