// Where the machines of a job under Slurm reach each other.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// An IPv4 address for each node of the list ("n[1-3]"), in its order, as Slurm and then the
// resolver know it. `own` is the node that asks: where its name means loopback, as Debian has it,
// it is what the others see. Asks scontrol and blocks for the resolver.
Result<std::vector<std::string>> find_slurm_addresses(const std::string& nodes,
                                                      const std::string& own, Clock& clock);

// Whether this machine could listen on "address:port" just now.
bool is_free_to_listen(const std::string& address_and_port);

}  // namespace tern
