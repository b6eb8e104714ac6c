// Whether a store keeps the promise that checkpoints rest on.
#pragma once

#include "storage/object_store.h"

namespace tern {

// Tries whether create() of this store never replaces, and has exactly one winner when several race
// for a name. `failed_precondition`, with what to use instead, if it does not: such servers answer
// every create-only put with success, or look first and write then. Other errors are the store's
// own. A handful of objects below "tern-probe-..." are made and removed again; blocks for about a
// dozen requests one after another. A race that is rarely lost can be missed.
Status check_create_only(ObjectStore& store);

}  // namespace tern
