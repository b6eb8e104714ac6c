// The zip files that torch.save() writes: every member stored as it is, none compressed.
#pragma once

#include <map>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// By name; views into the file's bytes.
using ZipMembers = std::map<std::string, BytesView, std::less<>>;

// Every offset and length is checked before use, and each member's CRC-32 where the writer left
// one. `corrupt`, with the reason, for a file that is damaged or cut short, and for one with
// compressed, encrypted or repeated members: another program's. Takes memory for the names alone.
Result<ZipMembers> parse_stored_zip(BytesView file);

}  // namespace tern
