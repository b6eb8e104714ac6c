// What the environment says of the other machines of a run.
#pragma once

#include <optional>

#include "core/metadata_endpoint.h"
#include "core/result.h"
#include "ranks/mesh.h"

namespace tern {

inline constexpr char kPeersVariable[] = "TERN_PEERS";        // "10.0.0.4:20317 10.0.0.5:21111"
inline constexpr char kMachineVariable[] = "TERN_MACHINE";    // "0"
inline constexpr char kMachinesVariable[] = "TERN_MACHINES";  // "2"
inline constexpr char kSecretFileVariable[] = "TERN_SECRET_FILE";
inline constexpr char kStatusFileVariable[] = "TERN_STATUS_FILE";

// Nothing without TERN_PEERS, or with this machine alone in it. `invalid` with the variable's name
// for what is missing or wrong; `not_found` and `corrupt` of the secret's file, whose content no
// message repeats.
Result<std::optional<MeshPlace>> read_mesh_place(const VariableReader& variable);

}  // namespace tern
