// How well a plan mixes the classes: one figure, to be said when a run begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataset/dataset.h"
#include "dataset/plan.h"

namespace tern {

// The quality is the number of different classes in a batch, divided by the number that is expected
// of a full shuffle, both on average over the first batches of epoch 0; never more than 1.
//
// A batch of G samples drawn without replacement from n holds the class of n_c samples with
// probability 1 - C(n - n_c, G) / C(n, G); the sum over the classes is what is expected. A full
// shuffle has a quality of about 1. Samples sorted by class and read in sequence have about one
// class in a batch, so 1 / min(G, classes) or little more. It says nothing of what else neighbours
// may have in common.
struct ShuffleQuality {
  double ratio = 0;
  double classes_in_a_batch = 0;
  double classes_expected = 0;
  int64_t batch = 0;  // samples of the first
};

// Looks at every label once, and at those of the first `batches` batches (or all there are) in the
// plan's order. REQUIRES: batches > 0; the plan is of this data set.
ShuffleQuality shuffle_quality(const Plan& plan, const Dataset& dataset, int64_t batches = 32);

// "shuffle window:8: quality 0.31 (a batch of 256 holds 55 classes; a full shuffle would give 177)"
std::string describe_shuffle_quality(const ShuffleQuality& quality, std::string_view shuffle);

}  // namespace tern
