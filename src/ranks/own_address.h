// Which of this machine's addresses the others reach it by, where nobody has said so.
#pragma once

#include <string>

#include "core/result.h"

namespace tern {

struct MeetingPlace {
  std::string address;  // where all meet, in digits
  std::string own;      // this machine's on the way there; data ports are bound to it
};

// `host` is a name or an address. A name that this machine gives itself stands for its loopback in
// Debian's /etc/hosts (127.0.1.1), where nobody else comes: then it is the address that its packets
// leave by. `interface`, where it is not empty, is whose address is the own one. `not_found` if a
// name is not known, or an interface. May ask a name server.
Result<MeetingPlace> find_meeting_place(const std::string& host, const std::string& interface);

// Its name ("eth0"); empty if none has this address.
std::string interface_with(const std::string& address);

}  // namespace tern
